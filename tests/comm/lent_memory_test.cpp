// Unregistered memory of callers, over sockets: the messages that land in it, and that nothing accesses it after a call.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>

#include "../break_connections.h"
#include "comm_ranks.h"

namespace horing {
namespace {

constexpr int kRanks = 2;
constexpr size_t kWords = 1 << 18;  // of each rank

// Unmapped after the call: a later access crashes, or gets an error from the kernel.
class Pages {
 public:
  explicit Pages(size_t words)
      : bytes_(words * sizeof(uint32_t)),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint32_t* words() const { return static_cast<uint32_t*>(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const size_t bytes_;
  void* const data_;
};

uint32_t word(int rank, size_t index, uint32_t round) {
  return static_cast<uint32_t>(rank) * 1'000'003u + static_cast<uint32_t>(index) * 2'654'435'761u +
         round * 97u;
}

class LentMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = rootOfThisMachine();
    ranks_ = makeRanks(kRanks, *root_, [](CommunicatorOptions& options) {
      options.config.transports = "socket";
      options.config.debug = "none";
      options.config.timeout_ms = 20'000;
      options.config.socket_ifname = "=lo";
    });
    ASSERT_FALSE(HasFailure());
  }
  void TearDown() override {
    onEveryRank(kRanks,
                [this](int rank) { EXPECT_TRUE(!ranks_[at(rank)] || ranks_[at(rank)]->leave().ok()); });
  }
  static size_t at(int rank) { return static_cast<size_t>(rank); }

  void gather(int rank, uint32_t round, bool breaks = false) {
    const Pages from(kWords), into(kWords * kRanks);
    for (size_t i = 0; i < kWords; ++i) from.words()[i] = word(rank, i, round);
    const Status status = ranks_[at(rank)]->run(
        {{.collective = Collective::kAllGather, .type = DataType::kUint32, .count = kWords},
         {.input = from.data(), .output = into.data()}});
    if (breaks) testing::breakConnections([] { return true; });
    ASSERT_TRUE(status.ok()) << status.toString();
    size_t wrong = 0;
    for (size_t i = 0; i < kWords * kRanks; ++i)
      wrong += into.words()[i] == word(static_cast<int>(i / kWords), i % kWords, round) ? 0 : 1;
    EXPECT_EQ(wrong, 0u) << "rank " << rank << ", round " << round;
  }
  // A call in which rank 0 gives all its words to rank 1, where they land; it only sends.
  void giveToRankOne(const std::function<Status(Communicator&, int rank, std::byte* data)>& call) {
    onEveryRank(kRanks, [&](int rank) {
      const Pages data(kWords);
      if (rank == 0) std::fill_n(data.words(), kWords, 7);
      const Status status = call(*ranks_[at(rank)], rank, data.data());
      EXPECT_TRUE(status.ok()) << status.toString();
      EXPECT_EQ(data.words()[kWords - 1], 7u);
    });
    EXPECT_EQ(moved(0).sent_in_place, 0u);
    EXPECT_GT(moved(1).received_in_place, 0u);
  }
  DataMoved moved(int rank) const { return ranks_[at(rank)]->reach().dataMoved(); }

  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(LentMemory, HasWhatLandsInTheOutput) {
  onEveryRank(kRanks, [this](int rank) { gather(rank, 0); });
  uint64_t landed = 0;
  for (int rank = 0; rank < kRanks; ++rank) landed += moved(rank).received_in_place;
  EXPECT_GT(landed, 0u);
}

TEST_F(LentMemory, OfWhoOnlySendsIsNotUsed) {
  giveToRankOne([](Communicator& comm, int, std::byte* data) {
    return comm.run({{.collective = Collective::kBroadcast, .type = DataType::kUint32, .count = kWords},
                     {.input = data, .output = data}});
  });
}

TEST_F(LentMemory, OfAReceiveIsWhereItLands) {
  giveToRankOne([](Communicator& comm, int rank, std::byte* data) {
    Transfer transfer{.kind = Transfer::Send{data}, .peer = 1 - rank, .bytes = kWords * sizeof(uint32_t)};
    if (rank == 1) transfer.kind = Transfer::Receive{data};
    return comm.messages().exchange({&transfer, 1});
  });
}

TEST_F(LentMemory, HasBlocksThatDiffer) {
  onEveryRank(kRanks, [this](int rank) {
    constexpr size_t kCounts[kRanks] = {kWords, kWords / 2}, kOffsets[kRanks] = {kWords / 2, 0};
    const size_t own = kCounts[rank];
    const Pages from(own), into(kWords + kWords / 2);
    std::fill_n(from.words(), own, static_cast<uint32_t>(rank) + 1);
    const Status status = ranks_[at(rank)]->run({{.collective = Collective::kAllGather,
                                                  .type = DataType::kUint32,
                                                  .uneven = true,
                                                  .count = own,
                                                  .output_blocks = {kCounts, kOffsets}},
                                                 {.input = from.data(), .output = into.data()}});
    ASSERT_TRUE(status.ok()) << status.toString();
    EXPECT_EQ(std::count(into.words(), into.words() + kWords / 2, 2u), kWords / 2);
    EXPECT_EQ(std::count(into.words() + kWords / 2, into.words() + kWords + kWords / 2, 1u), kWords);
  });
  EXPECT_GT(moved(0).received_in_place + moved(1).received_in_place, 0u);
}

// Its output argument is ignored where its input is used.
TEST_F(LentMemory, OfARankThatHasNoOutputIsNotUsed) {
  constexpr size_t kMany = 2 << 20;
  onEveryRank(kRanks, [this](int rank) {
    const Pages from(kMany), into(kMany);
    std::fill_n(from.words(), kMany, 3);
    const Status status =
        ranks_[at(rank)]->run({{.collective = Collective::kReduce, .type = DataType::kUint32, .count = kMany},
                               {.input = from.data(), .output = rank == 0 ? into.data() : from.data()}});
    ASSERT_TRUE(status.ok()) << status.toString();
    EXPECT_EQ(into.words()[kMany - 1], rank == 0 ? 6u : 0u);
  });
  EXPECT_EQ(moved(1).sent_in_place, 0u);
}

// The first rank that is done breaks the connections: unread data has to be sent again, and the other rank's memory is unmapped, or
// has other values.
TEST_F(LentMemory, IsNotTouchedAfterTheCallThoughConnectionsBreak) {
  onEveryRank(kRanks, [this](int rank) {
    for (uint32_t round = 0; round < 60 && !HasFailure(); ++round) {
      gather(rank, round, round % 3 == 0);
    }
  });
}

}  // namespace
}  // namespace horing
