// Jobs whose processes do not have the environment that ours have.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>

#include "../../comma_locale.h"
#include "../../held_port.h"
#include "../../sanitizer.h"
#include "job.h"

namespace horing::test {
namespace {

void expectSuccess(const JobOutcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_EQ(outcome.everything.find("WARN"), std::string::npos) << outcome.everything;
}

// The machine is measured at the start, and one rank sends its results to the others as text. `model` accepts figures of a busy
// machine, too.
TEST(ProgramWithADecimalComma, Starts) {
  const CommaLocale locale;
  HORING_NEEDS_COMMA_LOCALE(locale);
  const TemporaryFolder cache;
  expectSuccess(runJob({.words = {"rounds=2", std::string("locale=") + CommaLocale::kName, "0:HORING_GROUP=a",
                                  "1:HORING_GROUP=a", "2:HORING_GROUP=b", "3:HORING_GROUP=b"},
                        .environment = {locale.variable(), "HORING_CALIBRATE=1", "HORING_SELECTION=model",
                                        "HORING_CACHE_DIR=" + cache.path().string()}}));
}

// What a shell does before it runs the ranks' program.
std::vector<std::string> after(const std::string& commands) {
  return {"sh", "-c", commands + "; exec \"$@\"", "sh"};
}

// Lines of the log do not go where descriptors of the library are.
TEST(ProgramWithoutStandardInputAndError, Runs) {
  for (const char* transports : {"shm,socket", "socket"})
    expectSuccess(
        runJob({.words = {"rounds=3"},
                .environment = {"HORING_DEBUG=trace", std::string("HORING_TRANSPORTS=") + transports},
                .before = after("exec <&- 2>&-")}));
}

// The reader of the ranks' log has left.
TEST(ProgramWhoseLogNobodyReads, Runs) {
  const JobOutcome outcome = runJob({.words = {"rounds=3"},
                                     .environment = {"HORING_DEBUG=trace"},
                                     .before = {"sh", "-c", "exec 3>&1; \"$@\" 2>&1 >&3 | true", "sh"}});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(eventOf(outcome.events, "end", rank).code, kSuccess);
}

// Root may use every file: only without that right does the mode of files count.
TEST(ProgramWithoutRightsInItsUmask, Runs) {
  Program program(jobCommand({.words = {"rounds=3"}}), [] {
    ::umask(0777);
    for (const int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) ::prctl(PR_CAPBSET_DROP, capability);
  });
  expectSuccess(endOf(program));
}

// Concurrently, as torchrun starts them: with one key, and no difference but the rendezvous address.
TEST(TwoJobsOfOneUser, RunBesideEachOther) {
  const TemporaryFolder folder;
  const std::string key = folder.path() / "key";
  std::ofstream(key) << std::string(32, 'k');
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  const HeldPort rendezvous[2];
  std::vector<std::unique_ptr<Program>> ranks;
  for (const HeldPort& port : rendezvous)
    for (const char* rank : {"0", "1"})
      ranks.push_back(std::make_unique<Program>(std::vector<std::string>{
          "env", std::string("RANK=") + rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + std::to_string(port.number() - 1),  // of the store that torchrun would have
          "HORING_KEY_FILE=" + key, HORING_RANK_PROGRAM, "rounds=2000", "count=100"}));
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 0);
    EXPECT_EQ(countOf(*rank, "end"), 1) << rank->output() << rank->errors();
  }
}

// Files of no size: neither what the ranks write nor their shared memory may end them. Their output is a pipe.
TEST(ProgramThatMayWriteNoFile, RunsOverSockets) {
#ifdef HORING_TEST_TSAN
  GTEST_SKIP() << "ThreadSanitizer itself writes a file before main() begins";
#endif
  const TemporaryFolder folder;
  const JobOutcome outcome = runJob({.words = {"rounds=3"},
                                     .environment = {"HORING_TRACE=" + folder.path().string()},
                                     .before = {"sh", "-c", "(ulimit -f 0; exec \"$@\") 2>&1 | cat", "sh"}});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(eventOf(outcome.events, "end", rank).code, kSuccess);
  for (const char* words : {"ulimit -f", "sockets serve instead"})
    EXPECT_NE(outcome.everything.find(words), std::string::npos) << outcome.everything;
}

// However few there are, it works or names at once the missing resource. If rank 0 has left, the others learn that at their
// deadline.
TEST(ProgramWithFewDescriptors, RunsOrSaysSoAtOnce) {
#ifdef HORING_TEST_ASAN
  GTEST_SKIP()
      << "UBSan looks at objects through a pipe, and takes them for broken where there is no descriptor";
#endif
  for (const int limit : {7, 11, 13, 14, 15, 16, 18, 20, 24, 40}) {
    SCOPED_TRACE(std::to_string(limit) + " descriptors");
    const JobOutcome outcome =
        runJob({.words = {"rounds=2"},
                .environment = {"HORING_TRANSPORTS=socket", "HORING_INIT_TIMEOUT_MS=4000"},
                .before = after("ulimit -n " + std::to_string(limit))});
    int failures = 0, late = 0;
    for (const Event& event : outcome.events) {
      failures += event.code != kSuccess;
      late += event.code == kTimeout;
      EXPECT_LT(event.took_ms, 20'000) << event.text;
    }
    const bool has_rank_0 = eventOf(outcome.events, "join", 0).code == kSuccess;
    EXPECT_TRUE(late == 0 || (!has_rank_0 && failureOf(outcome.events, 0).code == kSystemError))
        << outcome.everything;
    EXPECT_TRUE(failures == 0 || outcome.everything.find("ulimit -n") != std::string::npos)
        << outcome.everything;
  }
}

}  // namespace
}  // namespace horing::test
