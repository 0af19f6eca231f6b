// Operations on streams: in order on each, several at once, errors and callbacks.
#include <atomic>
#include <chrono>
#include <future>

#include "ways.h"

namespace {

using Streams = Collectives;

TEST_P(Streams, RunInOrderWithoutWaitingForTheCaller) {
  onEveryRank(ranks(), [&](int rank) {
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    // Each step needs the one before: 1, n, n * n, ... until the broadcast of the last root.
    std::vector<int64_t> value(1000, 1);
    for (int i = 0; i < 5; ++i)
      ASSERT_HORING(horingAllReduce(value.data(), value.data(), value.size(), horingInt64, horingSum,
                                    comm(rank), stream));
    ASSERT_HORING(horingBcast(value.data(), value.size(), horingInt64, ranks() - 1, comm(rank), stream));
    ASSERT_HORING(horingStreamSynchronize(stream));
    int64_t expected = 1;
    for (int i = 0; i < 5; ++i) expected *= ranks();
    EXPECT_EQ(value, std::vector<int64_t>(1000, expected));
    EXPECT_HORING(horingStreamQuery(stream));
    EXPECT_HORING(horingStreamDestroy(stream));
  });
}

TEST_P(Streams, MixWithCallsThatBlock) {
  onEveryRank(ranks(), [&](int rank) {
    horingStream_t first = nullptr, second = nullptr;
    ASSERT_HORING(horingStreamCreate(&first));
    ASSERT_HORING(horingStreamCreate(&second));
    int64_t a = 1, b = 1, c = 1;
    for (int i = 0; i < 4; ++i) {
      ASSERT_HORING(horingAllReduce(&a, &a, 1, horingInt64, horingSum, comm(rank), first));
      ASSERT_HORING(horingAllReduce(&b, &b, 1, horingInt64, horingSum, comm(rank), second));
      ASSERT_HORING(horingAllReduce(&c, &c, 1, horingInt64, horingSum, comm(rank), nullptr));
    }
    EXPECT_EQ(a, c) << "a call that blocks comes after all before it on its communicator";
    EXPECT_EQ(b, c);
    EXPECT_HORING(horingStreamDestroy(first));
    EXPECT_HORING(horingStreamDestroy(second));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Streams, testing::ValuesIn(kWays));

TEST(StreamOfOneThread, DrivesSeveralRanksInAGroup) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  std::vector<horingStream_t> own(2);
  for (horingStream_t& each : own) ASSERT_HORING(horingStreamCreate(&each));
  int32_t data[2] = {3, 4};
  std::promise<horingResult_t> called;
  for (size_t rank = 0; rank < 2; ++rank)
    ASSERT_HORING(
        horingAllReduce(&data[rank], &data[rank], 1, horingInt32, horingSum, comms[rank], own[rank]));
  ASSERT_HORING(horingStreamAddCallback(
      own[0],
      [](horingStream_t, horingResult_t status, void* promise) {
        static_cast<std::promise<horingResult_t>*>(promise)->set_value(status);
      },
      &called));
  EXPECT_EQ(called.get_future().get(), horingSuccess);
  for (const horingStream_t each : own) EXPECT_HORING(horingStreamDestroy(each));
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(data[1], 7);
  EXPECT_HORING(horingStreamDestroy(stream));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(StreamErrors, AreToldBySynchronize) {
  const Setting timeout("HORING_TIMEOUT_MS", "300");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data = 3;
  // Rank 1 never comes.
  ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[0], stream));
  EXPECT_EQ(horingStreamQuery(stream), horingInProgress);
  EXPECT_EQ(horingStreamSynchronize(stream), horingTimeout);
  EXPECT_HORING(horingStreamSynchronize(stream)) << "an error is told once";
  EXPECT_HORING(horingStreamDestroy(stream));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(StreamErrors, AbortEndsWhatIsRunningAndWhatIsQueued) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data[100] = {};
  for (int32_t& each : data)
    ASSERT_HORING(horingAllReduce(&each, &each, 1, horingInt32, horingSum, comms[0], stream));
  EXPECT_HORING(horingCommAbort(comms[0]));
  EXPECT_EQ(horingStreamSynchronize(stream), horingInvalidUsage);
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_HORING(horingCommAbort(comms[1]));
}

TEST(StreamErrors, OtherPointersAreRefused) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  int32_t data = 3;
  EXPECT_EQ(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[0], &data), horingInvalidUsage);
  EXPECT_EQ(horingStreamSynchronize(&data), horingInvalidUsage);
  EXPECT_EQ(horingStreamSynchronize(nullptr), horingInvalidArgument);
  EXPECT_EQ(horingStreamCreate(nullptr), horingInvalidArgument);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  EXPECT_EQ(horingStreamAddCallback(stream, nullptr, nullptr), horingInvalidArgument);
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_EQ(horingStreamDestroy(stream), horingInvalidUsage) << "destroyed before";
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

}  // namespace
