// Registered buffers over RDMA: which data is copied through slots and which is not, also with a link that fails.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "../rdma_machine.h"
#include "comm_ranks.h"

namespace horing {
namespace {

constexpr int kRanks = 4;

enum class Buffers { kOrdinary, kAllocated, kRegistered };

// Two ranks on each side of both wires.
class InPlace : public ::testing::Test {
 protected:
  void SetUp() override { HORING_NEEDS_RDMA_MACHINE(); }
  void TearDown() override {
    onEveryRank(kRanks, [this](int rank) { leave(rank); });
  }

  bool meet(int64_t registered_mb = 1024, const char* algorithm = "auto") {
    root_ = rootOfThisMachine();
    ranks_ = makeRanks(kRanks, *root_, [&](CommunicatorOptions& options) {
      options.config.transports = "verbs";
      options.config.algorithm = algorithm;
      options.config.ib_registered_mb = registered_mb;
      options.config.heartbeat_ms = 0;  // under emulation and sanitizers a thread may stand still for seconds
      options.config.group = options.rank < kRanks / 2 ? "A" : "B";
      options.config.ib_hca = options.rank < kRanks / 2 ? "=rxe0,rxe2" : "=rxe1,rxe3";
      options.segments = &segments_;
    });
    return !HasFailure();
  }
  Communicator& comm(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void leave(int rank) {
    std::unique_ptr<Communicator> left = std::move(ranks_[static_cast<size_t>(rank)]);
    if (!left) return;
    left_[static_cast<size_t>(rank)] = left->reach().dataMoved();
    EXPECT_TRUE(left->leave().ok());
  }
  // Of all ranks since the last time.
  DataMoved moved() {
    DataMoved all;
    for (size_t rank = 0; rank < kRanks; ++rank)
      all += ranks_[rank] ? ranks_[rank]->reach().dataMoved() : left_[rank];
    const DataMoved before = std::exchange(before_, all);
    return {all.sent_in_place - before.sent_in_place, all.sent_through_slots - before.sent_through_slots,
            all.received_in_place - before.received_in_place,
            all.received_through_slots - before.received_through_slots};
  }

  static uint32_t word(int rank, size_t index, int round) {
    return static_cast<uint32_t>(rank) * 1'000'003u + static_cast<uint32_t>(index) * 2'654'435'761u +
           static_cast<uint32_t>(round) * 97u;
  }
  void allGather(Buffers kind, size_t words) {
    onEveryRank(kRanks, [=, this](int rank) { allGatherOn(rank, kind, words, 1); });
  }
  void exchange(Buffers kind, size_t words) {
    onEveryRank(kRanks, [=, this](int rank) { exchangeOn(rank, kind, words); });
  }
  void allGatherOn(int rank, Buffers kind, size_t words, int rounds);
  void exchangeOn(int rank, Buffers kind, size_t words);
  void allReduce(Buffers kind, size_t words, bool in_place);

  SegmentList segments_;
  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_{kRanks};
  std::array<DataMoved, kRanks> left_;  // of the ranks that have left
  DataMoved before_;
};

// Memory of one rank for one communicator.
class Memory {
 public:
  Memory(Communicator& comm, SegmentList& segments, Buffers kind, size_t words)
      : comm_(comm), segments_(segments), kind_(kind) {
    const size_t bytes = words * sizeof(uint32_t);
    if (kind == Buffers::kAllocated) {
      data_ = reinterpret_cast<uint32_t*>(segments.allocate(bytes).take());
    } else {
      ordinary_.resize(words);
      data_ = ordinary_.data();
    }
    if (kind == Buffers::kRegistered) {
      auto handle = comm.reach().registerMemory(reinterpret_cast<std::byte*>(data_), bytes);
      EXPECT_TRUE(handle.ok()) << handle.status().toString();
      handle_ = handle.ok() ? handle.take() : nullptr;
    }
  }
  ~Memory() {
    if (kind_ == Buffers::kAllocated) {
      EXPECT_TRUE(segments_.free(data_).ok());
    } else if (kind_ == Buffers::kRegistered) {
      EXPECT_TRUE(comm_.reach().deregister(handle_).ok());
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint32_t& operator[](size_t index) { return data_[index]; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data_); }

 private:
  Communicator& comm_;
  SegmentList& segments_;
  Buffers kind_;
  std::vector<uint32_t> ordinary_;
  uint32_t* data_ = nullptr;
  void* handle_ = nullptr;
};

void InPlace::allGatherOn(int rank, Buffers kind, size_t words, int rounds) {
  Memory input(comm(rank), segments_, kind, words), output(comm(rank), segments_, kind, words * kRanks);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < words; ++i) input[i] = word(rank, i, round);
    Call call;
    call.collective = Collective::kAllGather;
    call.input = input.bytes();
    call.output = output.bytes();
    call.count = words;
    call.type = DataType::kUint32;
    const Status status = comm(rank).run(call);
    ASSERT_TRUE(status.ok()) << status.toString();
    for (size_t i = 0; i < words * kRanks; ++i)
      ASSERT_EQ(output[i], word(static_cast<int>(i / words), i % words, round))
          << "rank " << rank << ", " << i;
  }
}

// Everybody sends to the next rank.
void InPlace::exchangeOn(int rank, Buffers kind, size_t words) {
  Memory input(comm(rank), segments_, kind, words), output(comm(rank), segments_, kind, words);
  for (size_t i = 0; i < words; ++i) input[i] = word(rank, i, 0);
  const int next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
  const size_t bytes = words * sizeof(uint32_t);
  const Transfer both[] = {{.kind = Transfer::Send{input.bytes()}, .peer = next, .bytes = bytes},
                           {.kind = Transfer::Receive{output.bytes()}, .peer = previous, .bytes = bytes}};
  const Status status = comm(rank).messages().exchange(both);
  ASSERT_TRUE(status.ok()) << status.toString();
  for (size_t i = 0; i < words; ++i)
    ASSERT_EQ(output[i], word(previous, i, 0)) << "rank " << rank << ", " << i;
}

void InPlace::allReduce(Buffers kind, size_t words, bool in_place) {
  onEveryRank(kRanks, [&](int rank) {
    Memory input(comm(rank), segments_, kind, words), other(comm(rank), segments_, kind, words);
    Memory& output = in_place ? input : other;
    for (size_t i = 0; i < words; ++i) input[i] = word(rank, i, 0);
    Call call;
    call.input = input.bytes();
    call.output = output.bytes();
    call.count = words;
    call.type = DataType::kUint32;
    const Status status = comm(rank).run(call);
    ASSERT_TRUE(status.ok()) << status.toString();
    for (size_t i = 0; i < words; ++i) {
      uint32_t sum = 0;
      for (int peer = 0; peer < kRanks; ++peer) sum += word(peer, i, 0);
      ASSERT_EQ(output[i], sum) << "rank " << rank << ", " << i;
    }
  });
}

constexpr size_t kLeastWords = kInPlaceBytes / sizeof(uint32_t);

TEST_F(InPlace, AnAllGatherOfRegisteredBuffersMovesNothingThroughSlots) {
  ASSERT_TRUE(meet());
  for (const Buffers kind : {Buffers::kAllocated, Buffers::kRegistered})
    for (const size_t words : {kLeastWords, kLeastWords * 5 + 3}) {
      allGather(kind, words);
      const DataMoved data = moved();
      EXPECT_GT(data.sent_in_place, 0u);
      EXPECT_EQ(data.received_in_place, data.sent_in_place);
      EXPECT_EQ(data.sent_through_slots, 0u);
      EXPECT_EQ(data.received_through_slots, 0u);
    }
}

TEST_F(InPlace, SendsAndReceivesOfRegisteredBuffersAreNotCopied) {
  ASSERT_TRUE(meet());
  for (const Buffers kind : {Buffers::kAllocated, Buffers::kRegistered})
    for (const size_t words : {kLeastWords, kLeastWords * 50 + 7}) {
      exchange(kind, words);
      const DataMoved data = moved();
      EXPECT_EQ(data.sent_in_place, words * sizeof(uint32_t) * kRanks);
      EXPECT_EQ(data.received_in_place, data.sent_in_place);
      EXPECT_EQ(data.sent_through_slots, 0u);
      EXPECT_EQ(data.received_through_slots, 0u);
    }
}

TEST_F(InPlace, OrdinaryAndSmallBuffersGoThroughSlots) {
  ASSERT_TRUE(meet());
  allGather(Buffers::kOrdinary, kLeastWords * 3);
  allGather(Buffers::kAllocated, kLeastWords / 2);
  exchange(Buffers::kOrdinary, kLeastWords * 3);
  exchange(Buffers::kRegistered, kLeastWords - 1);
  const DataMoved data = moved();
  EXPECT_EQ(data.sent_in_place, 0u);
  EXPECT_EQ(data.received_in_place, 0u);
  EXPECT_GT(data.sent_through_slots, 0u);
}

TEST_F(InPlace, NothingIsRegisteredWhereTheLimitSaysSo) {
  ASSERT_TRUE(meet(0));
  EXPECT_EQ(comm(0).reach().registerMemory(reinterpret_cast<std::byte*>(&before_), sizeof before_).value(),
            nullptr);
  allGather(Buffers::kAllocated, kLeastWords * 3);
  const DataMoved data = moved();
  EXPECT_EQ(data.sent_in_place, 0u);
  EXPECT_GT(data.sent_through_slots, 0u);
}

TEST_F(InPlace, AllReducesAreRightInEveryMixture) {
  for (const char* algorithm : {"auto", "ring", "halving_doubling"}) {
    ASSERT_TRUE(meet(1024, algorithm));
    for (const Buffers kind : {Buffers::kAllocated, Buffers::kRegistered, Buffers::kOrdinary})
      for (const bool in_place : {false, true}) allReduce(kind, kLeastWords * 9 + 5, in_place);
    EXPECT_GT(moved().sent_in_place, 0u) << algorithm;
    TearDown();
    before_ = {};
  }
}

TEST_F(InPlace, RegisteredBuffersSurviveAPulledWire) {
  ASSERT_TRUE(meet());
  allGather(Buffers::kAllocated, kLeastWords * 4);
  exchange(Buffers::kAllocated, kLeastWords * 4);
  moved();
  std::thread puller([] { EXPECT_TRUE(testing::pullWire(0)); });
  onEveryRank(kRanks, [&](int rank) {
    allGatherOn(rank, Buffers::kAllocated, kLeastWords * 16, 8);
    if (rank == 0) puller.join();
    exchangeOn(rank, Buffers::kRegistered, kLeastWords * 16);
  });
  const DataMoved data = moved();
  EXPECT_EQ(data.sent_through_slots, 0u);
  EXPECT_EQ(data.received_through_slots, 0u);
  EXPECT_TRUE(testing::plugWire(0));
}

// The last credits are still on their way when the first rank is done, and none of them arrives.
TEST_F(InPlace, WhoIsThroughSaysWhatCameBeforeAWireWasPulled) {
  for (const bool leaves : {true, false}) {
    ASSERT_TRUE(meet());
    allGather(Buffers::kAllocated, kLeastWords);
    EXPECT_TRUE(testing::shapeWire(0, "delay 80ms"));
    std::atomic<bool> pulled = false;
    onEveryRank(kRanks, [&](int rank) {
      allGatherOn(rank, Buffers::kAllocated, kLeastWords * 16, 1);
      EXPECT_TRUE(pulled.exchange(true) || testing::pullWire(0));
      if (leaves) leave(rank);
    });
    EXPECT_TRUE(testing::plugWire(0));
    EXPECT_TRUE(testing::shapeWire(0, ""));
    TearDown();
    before_ = {};
  }
}

}  // namespace
}  // namespace horing
