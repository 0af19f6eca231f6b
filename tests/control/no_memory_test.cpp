// A rank's errors when memory runs out.
#include "../scarce_memory.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;

// With each allocation in turn as the first for which there is no memory.
TEST(NoMemory, TheOthersHearOfAnErrorAllTheSame) {
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    const auto root = startRoot();
    const auto controls = joinAll(root->id(), 2);
    const Status error(Code::kSystemError, "its own words");
    allocations_left = enough_for;
    controls[0]->announceError(error);
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(controls[0]->status().message(), error.message());
    EXPECT_TRUE(mentions(waitForError(*controls[1]), "its own words"))
        << "memory for " << enough_for << ": " << controls[1]->status().toString();
  }
}

// The threads of the rendezvous and of both ranks have memory for this many allocations while a failure is reported. No rank waits
// for ever, and the user's process survives. Returns whether memory ran out.
bool endsTheJobAlone(int64_t enough_for, int64_t heartbeat_ms) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 2, heartbeat_ms);
  allocations_left_elsewhere = enough_for;
  controls[0]->announceError(Status(Code::kSystemError, "its own words"));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const bool ran_out = allocations_left_elsewhere < 0;
  allocations_left_elsewhere = kNever;
  EXPECT_FALSE(controls[0]->status().ok());
  EXPECT_FALSE(waitForError(*controls[1]).ok()) << "memory for " << enough_for;
  return ran_out;
}

TEST(NoMemory, InThreadsOfTheLibraryEndsNothingButTheJob) {
  if (test::kSanitizer) GTEST_SKIP() << "sanitizers bring their own operator new, which has always enough";
  is_of_test = true;
  for (const int64_t enough_for : {0, 1, 3, 6}) EXPECT_TRUE(endsTheJobAlone(enough_for, /*heartbeat_ms=*/0));
  EXPECT_TRUE(endsTheJobAlone(0, /*heartbeat_ms=*/10)) << "also where connections may be made again";
}

}  // namespace
}  // namespace horing
