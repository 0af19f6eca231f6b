// Processes whose rights change after the communicator was made: files opened later are not accessible, and another transport
// serves.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "job.h"

namespace horing::test {
namespace {

// Links of the first call come up after the change: nothing is connected before.
JobOutcome expectSuccess(std::vector<std::string> words, const std::vector<std::string>& environment = {}) {
  words.insert(words.begin(), {"rounds=4", "count=1000"});
  Program program(jobCommand({.words = std::move(words), .environment = environment}),
                  [] { ::prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE); });
  JobOutcome outcome = endOf(program);
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(eventOf(outcome.events, "collective", rank).code, kSuccess) << outcome.everything;
  return outcome;
}

size_t timesIn(const std::string& text, const std::string& words) {
  size_t times = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; at += words.size()) ++times;
  return times;
}

TEST(ProcessThatDropsItsPrivileges, GoesOverToSockets) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (const std::string who : {"2:rights=nobody", "rights=nobody"}) {
    const JobOutcome outcome = expectSuccess({who});
    const size_t changed = who[0] == 'r' ? 4 : 1;
    EXPECT_EQ(timesIn(outcome.everything, "has changed its rights (its user was 0 and is 65534"), changed)
        << outcome.everything;
  }
}

// Open links stay.
TEST(ProcessThatDropsItsPrivileges, KeepsTheLinksThatItHas) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const JobOutcome outcome = expectSuccess({"2:rights=nobody", "rights_round=2"});
  EXPECT_EQ(outcome.everything.find("has changed its rights"), std::string::npos) << outcome.everything;
}

// Slots are in files, which need only the same user.
TEST(ProcessThatBecomesUndumpable, KeepsSharedMemory) {
  const JobOutcome outcome = expectSuccess({"2:rights=undumpable"});
  EXPECT_EQ(outcome.everything.find("has changed its rights"), std::string::npos) << outcome.everything;
}

// Its memory was read by others until then, through the kernel.
TEST(ProcessThatBecomesUndumpable, IsReadNoLonger) {
  for (const char* who : {"2:rights=undumpable", "rights=undumpable"})
    expectSuccess({"collective=all_gather", who, "rights_round=2", "count=100000"},
                  {"HORING_TESTS_SINGLE_COPY=1"});
}

}  // namespace
}  // namespace horing::test
