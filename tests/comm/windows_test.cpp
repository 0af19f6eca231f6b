// Windows: what registering them costs, and what the ranks agree on.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "comm_ranks.h"

namespace horing {
namespace {

constexpr int kWindowRanks = 3;

class Windows3 : public ::testing::Test {
 protected:
  ~Windows3() override {
    onEveryRank(kWindowRanks,
                [this](int rank) { EXPECT_TRUE(!comms_[at(rank)] || comm(rank).leave().ok()); });
  }
  static size_t at(int rank) { return static_cast<size_t>(rank); }
  Communicator& comm(int rank) { return *comms_[at(rank)]; }
  // Every rank registers its memory; `without`: the rank whose memory cannot serve. Returns what rank 0 got.
  void* open(int without = -1) {
    std::array<void*, kWindowRanks> handles{};
    onEveryRank(kWindowRanks, [&](int rank) {
      std::byte* const memory = rank == without ? nullptr : memory_[at(rank)].data();
      const Result<void*> opened = comm(rank).windows().open(memory, memory_[at(rank)].size());
      ASSERT_TRUE(opened.ok()) << opened.status().toString();
      handles[at(rank)] = opened.value();
    });
    for (const void* const handle : handles) EXPECT_EQ(handle == nullptr, handles[0] == nullptr);
    return handles[0];
  }
  std::vector<uint64_t> memory() {
    std::vector<uint64_t> bytes;
    for (int rank = 0; rank < kWindowRanks; ++rank) bytes.push_back(comm(rank).memoryBytes());
    return bytes;
  }

  std::unique_ptr<RootService> root_ = rootOfThisMachine();
  std::vector<std::unique_ptr<Communicator>> comms_ =
      makeRanks(kWindowRanks, *root_, [](CommunicatorOptions&) {});
  std::array<std::vector<std::byte>, kWindowRanks> memory_{
      std::vector<std::byte>(8), std::vector<std::byte>(16), std::vector<std::byte>(24)};
};

TEST_F(Windows3, AWindowThatOneRankCannotServeConnectsNobody) {
  const std::vector<uint64_t> before = memory();
  for (int without = 0; without < kWindowRanks; ++without) EXPECT_EQ(open(without), nullptr);
  EXPECT_EQ(memory(), before);
  // A handle is not given for it, and the next window has its own number.
  ASSERT_NE(open(), nullptr);
  for (int rank = 0; rank < kWindowRanks; ++rank) EXPECT_GT(memory()[at(rank)], before[at(rank)]) << rank;
}

TEST_F(Windows3, EveryRankKnowsAllSizes) {
  const void* const handle = open();
  const auto window = comm(0).windows().find(handle);
  ASSERT_TRUE(window.ok()) << window.status().toString();
  EXPECT_EQ(window.value()->bytes, (std::vector<uint64_t>{8, 16, 24}));
  EXPECT_EQ(window.value()->memory, memory_[0].data());
  EXPECT_TRUE(comm(0).windows().close(handle).ok());
  EXPECT_FALSE(comm(0).windows().find(handle).ok());
}

// Here that is a receive on rank 0, for which rank 1 keeps it waiting. Otherwise the window would stay open there.
TEST_F(Windows3, TheLastStepWaitsForAnotherThreadThatIsInside) {
  std::byte sent{}, received{};
  std::thread inside;
  onEveryRank(kWindowRanks, [&](int rank) {
    const auto exchange = [this, rank](Transfer::Kind kind, int peer) {
      const Transfer transfer{.kind = kind, .peer = peer, .bytes = 1};
      const Status exchanged = comm(rank).messages().exchange(std::array{transfer});
      EXPECT_TRUE(exchanged.ok()) << exchanged.toString();
    };
    const auto open_parts = [&](std::span<const uint64_t> bytes) -> Result<PartsOnGpus> {
      EXPECT_EQ(std::vector<uint64_t>(bytes.begin(), bytes.end()), (std::vector<uint64_t>{8, 16, 24}));
      if (rank == 0) {
        inside = std::thread([exchange, &received] { exchange(Transfer::Receive{&received}, 1); });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      } else if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        exchange(Transfer::Send{&sent}, 0);
      }
      return PartsOnGpus{};
    };
    const Result<void*> opened =
        comm(rank).windows().open(memory_[at(rank)].data(), memory_[at(rank)].size(), open_parts);
    ASSERT_TRUE(opened.ok()) << opened.status().toString();
    EXPECT_EQ(opened.value(), nullptr) << "no parts";
  });
  inside.join();
  EXPECT_NE(open(), nullptr);
}

// Rank 1 has been left out of a registration.
TEST_F(Windows3, RanksThatRegisterDifferentWindowsAreTold) {
  std::array<Status, kWindowRanks> ends;
  onEveryRank(kWindowRanks, [&](int rank) {
    std::vector<std::byte>& memory = memory_[at(rank)];
    if (rank == 1) {
      const auto gathered = comm(rank).allGather({});
      EXPECT_TRUE(gathered.ok()) << gathered.status().toString();
      return;
    }
    ends[at(rank)] = comm(rank).windows().open(memory.data(), memory.size()).status();
  });
  EXPECT_EQ(ends[0].code(), Code::kInvalidUsage) << ends[0].toString();
  EXPECT_NE(ends[0].message().find("rank 0 registers its window 1"), std::string::npos) << ends[0].message();
  EXPECT_NE(ends[0].message().find("rank 1 another"), std::string::npos) << ends[0].message();
  EXPECT_FALSE(comm(0).messages().exchange(std::array{Transfer{.kind = Transfer::Send(), .peer = 0}}).ok())
      << "it sticks";
}

}  // namespace
}  // namespace horing
