// What becomes of groups when memory runs out.
#include <chrono>

#include "ranks.h"
#include "scarce_memory.h"

namespace {

TEST(NoMemory, ForACallOfAGroupRefusesAll) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  const int32_t from = 5;
  int32_t to = 0;
  const void* send = &from;
  void* recv = &to;
  const size_t count = 1;
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], nullptr));
  EXPECT_EQ(
      horingAllReduceList(&send, &recv, &count, SIZE_MAX / 2, horingInt32, horingSum, comms[0], nullptr),
      horingSystemError);
  EXPECT_TRUE(refuses(horingGroupEnd(), horingSystemError, "nothing of the group was launched"));
  EXPECT_EQ(to, 0);
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

// With each allocation of the group's end in turn as the first for which there is no memory: what was handed to threads before is
// complete on return.
TEST(NoMemory, InTheMiddleOfALaunchLeavesNothingBehind) {
  const std::vector<horingComm_t> pair = makeCommunicators(2, Meeting::kInitAll);
  const horingComm_t alone = makeCommunicators(1, Meeting::kInitAll)[0];
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    int32_t mine = 1, other = 1, single = 1;
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(horingAllReduce(&mine, &mine, 1, horingInt32, horingSum, pair[0], nullptr));
    ASSERT_HORING(horingAllReduce(&single, &single, 1, horingInt32, horingSum, alone, nullptr));
    std::thread peer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the launch is over, as a rule
      EXPECT_HORING(horingAllReduce(&other, &other, 1, horingInt32, horingSum, pair[1], nullptr));
    });
    allocations_left = enough_for;
    const horingResult_t result = horingGroupEnd();
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(result, ran_out ? horingSystemError : horingSuccess) << "memory for " << enough_for;
    // It was not launched.
    if (mine == 1) {
      EXPECT_HORING(horingAllReduce(&mine, &mine, 1, horingInt32, horingSum, pair[0], nullptr));
    }
    peer.join();
    ASSERT_EQ(mine, 2) << "memory for " << enough_for;
    ASSERT_EQ(other, 2) << "memory for " << enough_for;
  }
  for (const horingComm_t comm : {pair[0], pair[1], alone}) EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
