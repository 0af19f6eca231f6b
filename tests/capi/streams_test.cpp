// Operations on streams: in order on each, several at once, errors and callbacks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <utility>

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

// Which none of the ranks could carry out one after the other.
TEST_P(Streams, CarryTheMessagesOfAGroupTogether) {
  onEveryRank(ranks(), [&](int rank) {
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    const size_t n = 2 << 20;
    std::vector<int32_t> sent(n, 0), received(n, -1);
    int32_t small = rank, other = -1;
    std::vector<horingStream_t> streams(2);
    for (horingStream_t& each : streams) ASSERT_HORING(horingStreamCreate(&each));
    std::vector<int32_t> ones(n, 1);
    ASSERT_HORING(
        horingAllReduce(ones.data(), sent.data(), n, horingInt32, horingSum, comm(rank), streams[0]));
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(horingSend(sent.data(), n, horingInt32, next, comm(rank), streams[0]));
    ASSERT_HORING(horingSend(&small, 1, horingInt32, next, comm(rank), nullptr));
    ASSERT_HORING(horingRecv(received.data(), n, horingInt32, previous, comm(rank), streams[1]));
    ASSERT_HORING(horingRecv(&other, 1, horingInt32, previous, comm(rank), streams[1]));
    ASSERT_HORING(horingGroupEnd());
    EXPECT_EQ(other, previous) << "one is on no stream: all are complete";
    EXPECT_EQ(received, std::vector<int32_t>(n, ranks()));
    for (const horingStream_t each : streams) EXPECT_HORING(horingStreamDestroy(each));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Streams, everyWay());

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

// Two ranks of this thread; operations on several streams form one exchange, and another pair delays one of the streams.
class MessagesOnTwoStreams : public testing::Test {
 protected:
  void SetUp() override {
    for (horingStream_t* each : {&first_, &second_, &third_}) ASSERT_HORING(horingStreamCreate(each));
    ASSERT_HORING(horingRecv(&held_, 1, horingInt32, 1, other_[0], second_));
    ASSERT_HORING(horingGroupStart());
    for (int rank = 0; rank < 2; ++rank) {
      const auto at = static_cast<size_t>(rank);
      ASSERT_HORING(horingSend(&sent_[at], 1, horingInt32, 1 - rank, pair_[at], rank == 0 ? first_ : third_));
      ASSERT_HORING(
          horingRecv(&received_[at], 1, horingInt32, 1 - rank, pair_[at], rank == 0 ? second_ : third_));
    }
    ASSERT_HORING(horingGroupEnd());
  }
  void TearDown() override {
    for (const horingStream_t each : {first_, second_, third_}) horingStreamDestroy(each);
    std::erase(pair_, nullptr);
    for (const auto& comms : {pair_, other_})
      for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  }
  void letGo() {
    const int32_t seven = 7;
    EXPECT_HORING(horingSend(&seven, 1, horingInt32, 0, other_[1], nullptr));
  }
  const Setting timeout_{"HORING_TIMEOUT_MS", "60000"};
  std::vector<horingComm_t> pair_ = makeCommunicators(2, Meeting::kInitAll),
                            other_ = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t first_ = nullptr, second_ = nullptr, third_ = nullptr;
  int32_t held_ = 0, sent_[2] = {3, 4}, received_[2] = {};
};

TEST_F(MessagesOnTwoStreams, WaitForWhatIsBeforeThemOnEach) {
  EXPECT_EQ(horingStreamQuery(first_), horingInProgress);
  letGo();
  EXPECT_HORING(horingStreamSynchronize(first_));
  EXPECT_EQ(received_[0], 4);
  EXPECT_HORING(horingStreamSynchronize(second_));
  EXPECT_HORING(horingStreamSynchronize(third_));
  EXPECT_EQ(received_[1], 3);
}

TEST_F(MessagesOnTwoStreams, AreEndedByAnAbortOnBoth) {
  EXPECT_HORING(horingCommAbort(std::exchange(pair_[0], nullptr)));
  EXPECT_EQ(horingStreamSynchronize(first_), horingInvalidUsage);
  EXPECT_EQ(horingStreamQuery(second_), horingInProgress) << "what is before is another communicator's";
  letGo();
  EXPECT_EQ(horingStreamSynchronize(second_), horingInvalidUsage);
  EXPECT_EQ(horingStreamSynchronize(third_), horingRemoteError);
}

// The next operation on the communicator has waited for it, so the stream is idle.
TEST(StreamQuery, IsNotBehindAnOperationThatWaited) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data = 3;
  for (int round = 0; round < 2000; ++round) {
    ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[0], stream));
    ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[0], nullptr));
    ASSERT_HORING(horingStreamQuery(stream)) << "round " << round;
  }
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST(StreamErrors, AreToldBySynchronize) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
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

TEST(StreamErrors, AbortWaitsForNoOtherCommunicator) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  const std::vector<horingComm_t> first = makeCommunicators(2, Meeting::kInitAll);
  const std::vector<horingComm_t> second = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t received = 0, data = 3;
  const int32_t sent = 7;
  ASSERT_HORING(horingRecv(&received, 1, horingInt32, 1, first[0], stream));
  // Waits for its turn, behind the message.
  ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, second[0], stream));
  EXPECT_HORING(horingCommAbort(second[0]));
  EXPECT_EQ(horingStreamQuery(stream), horingInProgress) << "abort waited for the message";
  EXPECT_HORING(horingSend(&sent, 1, horingInt32, 0, first[1], nullptr));
  EXPECT_EQ(horingStreamSynchronize(stream), horingInvalidUsage) << "of what was aborted";
  EXPECT_EQ(received, 7);
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_HORING(horingCommAbort(second[1]));
  for (const horingComm_t comm : first) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(StreamErrors, AbortWaitsForNoGroupThatHoldsOthers) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  const std::vector<horingComm_t> first = makeCommunicators(2, Meeting::kInitAll);
  const std::vector<horingComm_t> second = makeCommunicators(2, Meeting::kInitAll);
  int32_t received = 0, never = 0;
  const int32_t sent = 7;
  std::promise<void> opened;
  std::thread waits([&] {
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(horingRecv(&received, 1, horingInt32, 1, first[0], nullptr));
    EXPECT_HORING(horingRecv(&never, 1, horingInt32, 1, second[0], nullptr));
    opened.set_value();
    EXPECT_EQ(horingGroupEnd(), horingInvalidUsage) << "of what was aborted";
  });
  opened.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that it waits already, as a rule
  EXPECT_HORING(horingCommAbort(second[0]));
  EXPECT_HORING(horingSend(&sent, 1, horingInt32, 0, first[1], nullptr));
  waits.join();
  EXPECT_EQ(received, 7) << "abort waited until the other message was given up";
  EXPECT_HORING(horingCommAbort(second[1]));
  for (const horingComm_t comm : first) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(StreamErrors, AGroupThatOutlivesItsStreamOrCommunicatorIsRefused) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  const int32_t from = 5;
  int32_t to = 0;
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], stream));
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_EQ(horingGroupEnd(), horingInvalidUsage);
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], nullptr));
  EXPECT_HORING(horingCommDestroy(comms[0]));
  // Perhaps in the same place.
  const std::vector<horingComm_t> next = makeCommunicators(1, Meeting::kInitAll);
  EXPECT_NE(horingGroupEnd(), horingSuccess);
  EXPECT_EQ(to, 0) << "nothing was launched";
  EXPECT_HORING(horingCommDestroy(next[0]));
}

TEST(StreamErrors, AbortEndsADestroyThatWaits) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data = 0;
  ASSERT_HORING(horingRecv(&data, 1, horingInt32, 1, comms[0], stream));
  std::thread destroys([&] { EXPECT_NE(horingCommDestroy(comms[0]), horingSuccess); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that it waits already, as a rule
  EXPECT_HORING(horingCommAbort(comms[0]));
  destroys.join();
  EXPECT_EQ(horingStreamDestroy(stream), horingInvalidUsage) << "of what was aborted";
  EXPECT_HORING(horingCommAbort(comms[1]));
}

struct InCallback {
  horingComm_t comm = nullptr;
  int32_t data = 1, more = 1;
  std::promise<std::vector<horingResult_t>> results;
};

// Calls that would wait for the thread that makes them, then one that does not wait.
void callFromCallback(horingStream_t stream, horingResult_t, void* argument) {
  auto& in = *static_cast<InCallback*>(argument);
  const auto reduce = [&in](horingStream_t on) {
    return horingAllReduce(&in.more, &in.more, 1, horingInt32, horingSum, in.comm, on);
  };
  std::vector<horingResult_t> results = {horingStreamSynchronize(stream),
                                         horingStreamDestroy(stream),
                                         horingCommDestroy(in.comm),
                                         horingCommAbort(in.comm),
                                         reduce(nullptr),
                                         horingCommFinalize(in.comm)};
  horingComm_t child = nullptr;
  int other = 1;
  results.push_back(horingCommSplit(in.comm, 0, 0, &child, nullptr));
  results.push_back(horingCommShrink(in.comm, &other, 1, &child, nullptr, HORING_SHRINK_DEFAULT));
  horingGroupStart();
  reduce(nullptr);
  results.push_back(horingGroupEnd());
  results.push_back(reduce(stream));
  in.results.set_value(results);
}

TEST(StreamErrors, ACallbackThatWouldWaitForItselfIsRefused) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  InCallback in;
  in.comm = comms[0];
  int32_t data = 1;
  ASSERT_HORING(horingAllReduce(&in.data, &in.data, 1, horingInt32, horingSum, comms[0], stream));
  ASSERT_HORING(horingStreamAddCallback(stream, callFromCallback, &in));
  ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[1], nullptr));
  std::vector<horingResult_t> expected(9, horingInvalidUsage);
  expected.push_back(horingSuccess);
  EXPECT_EQ(in.results.get_future().get(), expected);
  ASSERT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[1], nullptr));
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_EQ(in.more, 3);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// More than are queued before a call waits for room: which only the second rank's calls would make.
TEST(Group, OfOneThreadHoldsMoreCallsOfEachRankThanAreQueued) {
  constexpr int kRanks = 2, kCalls = 5000;
  horingComm_t comms[kRanks];
  ASSERT_HORING(horingCommInitAll(comms, kRanks, nullptr));
  for (const horingComm_t comm : comms) ASSERT_HORING(horingCommSetTimeout(comm, 20'000));
  int32_t data[kRanks] = {1, 1};
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < kRanks; ++rank)
    for (int i = 0; i < kCalls; ++i)
      ASSERT_HORING(
          horingAllReduce(&data[rank], &data[rank], 1, horingInt32, horingMax, comms[rank], nullptr));
  EXPECT_HORING(horingGroupEnd());
  EXPECT_EQ(data[0], 1);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// One rank's queue is full, and only the other rank's calls, of the same group, make room in it.
TEST(Group, OfOneThreadGoesOnThoughOneRankHasAFullQueue) {
  constexpr int kQueued = 4096, kMore = 10;
  horingComm_t comms[2];
  horingStream_t streams[2];
  ASSERT_HORING(horingCommInitAll(comms, 2, nullptr));
  for (const horingComm_t comm : comms) ASSERT_HORING(horingCommSetTimeout(comm, 20'000));
  for (horingStream_t& stream : streams) ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data[2] = {1, 1};
  const auto call = [&](int rank) {
    return horingAllReduce(&data[rank], &data[rank], 1, horingInt32, horingMax, comms[rank], streams[rank]);
  };
  for (int i = 0; i < kQueued; ++i) ASSERT_HORING(call(0));
  ASSERT_HORING(horingGroupStart());
  for (int i = 0; i < kMore; ++i) {
    ASSERT_HORING(call(1));
    ASSERT_HORING(call(0));
  }
  EXPECT_HORING(horingGroupEnd());
  for (int i = 0; i < kQueued; ++i) ASSERT_HORING(call(1));
  for (const horingStream_t stream : streams) EXPECT_HORING(horingStreamSynchronize(stream));
  for (const horingStream_t stream : streams) EXPECT_HORING(horingStreamDestroy(stream));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// A wrong argument is reported at once, and has no effect, though earlier operations still wait for other ranks.
TEST(Group, AWrongCallDoesNotWaitForWhatIsBeforeIt) {
  horingComm_t comms[2];
  horingStream_t stream;
  ASSERT_HORING(horingCommInitAll(comms, 2, nullptr));
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data[2] = {1, 2};
  ASSERT_HORING(horingAllReduce(&data[0], &data[0], 1, horingInt32, horingMax, comms[0], stream));
  EXPECT_EQ(horingAllReduce(nullptr, &data[0], 1, horingInt32, horingMax, comms[0], nullptr),
            horingInvalidArgument);
  ASSERT_HORING(horingAllReduce(&data[1], &data[1], 1, horingInt32, horingMax, comms[1], nullptr));
  EXPECT_HORING(horingStreamSynchronize(stream));
  EXPECT_EQ(data[0], 2);
  EXPECT_HORING(horingStreamDestroy(stream));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// The other thread is inside, and may be making links and plans.
TEST(MemoryBytes, AreToldWhileACallIsInside) {
  horingComm_t comms[2];
  ASSERT_HORING(horingCommInitAll(comms, 2, nullptr));
  int32_t received = 0;
  const int32_t sent = 7;
  std::thread inside([&] { EXPECT_HORING(horingRecv(&received, 1, horingInt32, 1, comms[0], nullptr)); });
  for (int i = 0; i < 200; ++i) {
    uint64_t bytes = 0;
    EXPECT_HORING(horingCommMemoryBytes(comms[0], &bytes));
    EXPECT_GT(bytes, 0u);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_HORING(horingSend(&sent, 1, horingInt32, 0, comms[1], nullptr));
  inside.join();
  EXPECT_EQ(received, sent);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// As many as a communicator queues before the next has to wait for room.
constexpr int kMostQueued = 4096;

// A communicator of one rank whose thread is in a callback, and behind that as much as it queues.
class FullQueue {
 public:
  explicit FullQueue(std::function<void(FullQueue&)> in_callback) : in_callback_(std::move(in_callback)) {
    EXPECT_HORING(horingStreamCreate(&stream_));
    // Holds the stream up until all is queued.
    EXPECT_HORING(horingRecv(&received_, 1, horingInt32, 1, pair_[0], stream_));
    EXPECT_HORING(issue());
    const auto call = [](horingStream_t, horingResult_t, void* self) {
      auto& queue = *static_cast<FullQueue*>(self);
      queue.began.set_value();
      queue.in_callback_(queue);
    };
    EXPECT_HORING(horingStreamAddCallback(stream_, call, this));
    for (int i = 1; i < kMostQueued; ++i) EXPECT_HORING(issue());
    const int32_t sent = 7;
    EXPECT_HORING(horingSend(&sent, 1, horingInt32, 0, pair_[1], nullptr));
    began.get_future().wait();
    // In place of that which is done.
    EXPECT_HORING(issue());
  }
  FullQueue(const FullQueue&) = delete;
  FullQueue& operator=(const FullQueue&) = delete;
  ~FullQueue() {
    horingStreamDestroy(stream_);
    for (const horingComm_t comm : pair_) EXPECT_HORING(horingCommDestroy(comm));
    if (alone) {
      EXPECT_HORING(horingCommDestroy(alone));
    }
  }
  horingResult_t issue() {
    return horingAllReduce(&data_, &data_, 1, horingInt32, horingSum, alone, stream_);
  }
  horingResult_t synchronize() { return horingStreamSynchronize(stream_); }

  horingComm_t alone = makeCommunicators(1, Meeting::kInitAll)[0];
  std::promise<void> began;

 private:
  std::function<void(FullQueue&)> in_callback_;
  std::vector<horingComm_t> pair_ = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream_ = nullptr;
  int32_t received_ = 0, data_ = 1;
};

TEST(StreamCallback, IssuesOperationsAlsoBehindAsManyAsAreQueued) {
  std::promise<void> filled;
  FullQueue queue([filled = filled.get_future().share()](FullQueue& full) {
    filled.wait();
    for (int i = 0; i < 3; ++i) EXPECT_HORING(full.issue());
  });
  filled.set_value();
  EXPECT_HORING(queue.synchronize());
}

TEST(StreamCallback, ThatWaitsHoldsUpCallsNoLongerThanTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  std::promise<void> release;
  FullQueue queue([released = release.get_future().share()](FullQueue&) { released.wait(); });
  EXPECT_TRUE(refuses(queue.issue(), horingTimeout, "HORING_TIMEOUT_MS"));
  release.set_value();
  EXPECT_HORING(queue.synchronize());
  EXPECT_HORING(queue.issue()) << "nothing sticks";
  EXPECT_HORING(queue.synchronize());
}

TEST(StreamErrors, AbortEndsAWaitForRoom) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  std::promise<void> release;
  FullQueue queue([released = release.get_future().share()](FullQueue&) { released.wait(); });
  std::promise<void> calls;
  std::thread waits([&] {
    calls.set_value();
    EXPECT_HORING(queue.issue());
    release.set_value();
  });
  calls.get_future().wait();
  // So that it is in the call. One that came later would be refused.
  std::this_thread::sleep_for(std::chrono::milliseconds(100 * horing::test::kSlowdown));
  EXPECT_HORING(horingCommAbort(queue.alone));
  queue.alone = nullptr;
  waits.join();
  EXPECT_EQ(queue.synchronize(), horingInvalidUsage) << "of what was aborted";
}

TEST(StreamErrors, TwoThreadsInOneCommunicatorDoNoHarm) {
  for (int round = 0; round < 100; ++round) {
    const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
    std::atomic<int> ready{0};
    onEveryRank(2, [&](int) {
      horingStream_t stream = nullptr;
      ASSERT_HORING(horingStreamCreate(&stream));
      int32_t data = 3;
      ++ready;
      while (ready < 2) std::this_thread::yield();
      EXPECT_HORING(horingAllReduce(&data, &data, 1, horingInt32, horingSum, comms[0], stream));
      EXPECT_HORING(horingStreamDestroy(stream));
    });
    EXPECT_HORING(horingCommDestroy(comms[0]));
  }
}

TEST(StreamErrors, AForkedChildIsRefused) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int32_t data = 0;
  const int32_t sent = 7;
  ASSERT_HORING(horingRecv(&data, 1, horingInt32, 1, comms[0], stream));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    ::_exit(horingStreamQuery(stream) == horingInvalidUsage &&
                    horingStreamSynchronize(stream) == horingInvalidUsage &&
                    horingStreamDestroy(stream) == horingInvalidUsage
                ? 0
                : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child was not refused";
  EXPECT_HORING(horingSend(&sent, 1, horingInt32, 0, comms[1], nullptr));
  EXPECT_HORING(horingStreamDestroy(stream));
  EXPECT_EQ(data, 7);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
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
