// Groups and operations on streams when memory runs out.
#include <atomic>
#include <chrono>

#include "../scarce_memory.h"
#include "ranks.h"

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

// Fails each allocation of the group's end in turn: operations handed to threads before that are complete on return.
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

// Fails each allocation of the calling thread in turn: ranks that already have threads end, and the program survives.
TEST(NoMemory, WhileThreadsOfRanksStartMakesNone) {
  if (horing::test::kSanitizer)
    GTEST_SKIP() << "sanitizers bring their own operator new, which has always enough";
  bool ran_out = true;
  int failures = 0;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    horingComm_t comms[3] = {};
    allocations_left = enough_for;
    const horingResult_t result = horingCommInitAll(comms, 3, nullptr);
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(result, ran_out ? horingSystemError : horingSuccess) << "memory for " << enough_for;
    failures += ran_out;
    for (const horingComm_t comm : comms)
      EXPECT_HORING(horingCommDestroy(result == horingSuccess ? comm : nullptr));
  }
  EXPECT_GT(failures, 10);
}

// No handle is left that could not be destroyed.
TEST(NoMemory, ForTheThreadsOfAGroupTakesItsHandlesBack) {
  if (horing::test::kSanitizer)
    GTEST_SKIP() << "sanitizers bring their own operator new, which has always enough";
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    horingComm_t comms[2] = {};
    ASSERT_HORING(horingGroupStart());
    for (horingComm_t& comm : comms) {
      horingUniqueId id;
      ASSERT_HORING(horingGetUniqueId(&id));
      ASSERT_HORING(horingCommInitRank(&comm, 1, id, 0));
    }
    allocations_left = enough_for;
    const horingResult_t result = horingGroupEnd();
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(result, ran_out ? horingSystemError : horingSuccess) << "memory for " << enough_for;
    for (const horingComm_t comm : comms) {
      EXPECT_EQ(comm != nullptr, !ran_out) << "memory for " << enough_for;
      EXPECT_HORING(horingCommDestroy(comm));
    }
  }
}

// The thread that carries operations out has memory for so many allocations from one callback to the next.
struct Scarcity {
  int64_t enough_for;
  std::atomic<bool> ran_out{false};
};

// The same with an operation on a stream, which a thread of the library runs: the program survives, and both ranks get the error.
TEST(NoMemory, OnTheThreadOfAStreamEndsTheCommunicator) {
  const auto begin = [](horingStream_t, horingResult_t, void* of) {
    allocations_left = static_cast<Scarcity*>(of)->enough_for;
  };
  const auto end = [](horingStream_t, horingResult_t, void* of) {
    static_cast<Scarcity*>(of)->ran_out = allocations_left < 0;
    allocations_left = kNever;
  };
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; enough_for += 1 + enough_for / 4) {
    const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
    Scarcity scarcity{.enough_for = enough_for};
    int32_t mine = 1, other = 1;
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    // The first keeps the thread until the other rank comes, so that the callbacks are its own.
    ASSERT_HORING(horingAllReduce(&mine, &mine, 1, horingInt32, horingSum, comms[0], stream));
    ASSERT_HORING(horingStreamAddCallback(stream, begin, &scarcity));
    ASSERT_HORING(horingBroadcast(&mine, &mine, 1, horingInt32, 0, comms[0], stream));
    ASSERT_HORING(horingStreamAddCallback(stream, end, &scarcity));
    EXPECT_HORING(horingAllReduce(&other, &other, 1, horingInt32, horingSum, comms[1], nullptr));
    const horingResult_t theirs = horingBroadcast(&other, &other, 1, horingInt32, 0, comms[1], nullptr);
    const horingResult_t ours = horingStreamSynchronize(stream);
    EXPECT_TRUE(ours == horingSuccess || refuses(ours, horingSystemError, "no memory"));
    ASSERT_HORING(horingStreamDestroy(stream));
    horingResult_t error = horingSuccess;
    ASSERT_HORING(horingCommGetAsyncError(comms[0], &error));
    EXPECT_EQ(ours, error) << "memory for " << enough_for;
    // It may have been complete before.
    EXPECT_TRUE(theirs == horingSuccess || (ours != horingSuccess && theirs == horingRemoteError)) << theirs;
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
    ran_out = scarcity.ran_out;  // now that the thread has called back
    EXPECT_TRUE(ran_out || ours == horingSuccess);
  }
}

}  // namespace
