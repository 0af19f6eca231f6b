#include "comm/gpu/neighbors.h"

#include <gtest/gtest.h>

#include <utility>

namespace horing {
namespace {

constexpr cuda::QueueShape kShape{9, 8192};
constexpr int kChannels = 6;

GpuMailboxes mailboxesOf(std::vector<std::string> nodes) {
  GpuMailboxes mailboxes(std::move(nodes));
  mailboxes.setShape(kShape, kChannels, 0);
  return mailboxes;
}

TEST(GpuMailboxes, LieSideBySideForWhateverNeighborsWrite) {
  const GpuMailboxes mailboxes = mailboxesOf({"a", "b", "a", "a", "b", "c"});
  EXPECT_EQ(mailboxes.neighborsOf(2), (std::vector<int>{0, 3}));
  for (int owner = 0; owner < 6; ++owner) {
    std::map<size_t, size_t> pieces;  // from, to
    const auto add = [&](size_t from, size_t bytes) {
      EXPECT_EQ(from % 256, 0U);
      EXPECT_TRUE(pieces.emplace(from, from + bytes).second) << "owner " << owner << " at " << from;
    };
    for (const int neighbor : mailboxes.neighborsOf(owner)) {
      add(mailboxes.closedWord(owner, neighbor), sizeof(uint64_t));
      for (int channel = 0; channel < kChannels; ++channel) {
        add(mailboxes.queueFrom(owner, neighbor, channel), cuda::queueBytes(kShape));
        add(mailboxes.counterOfQueueTo(owner, neighbor, channel), cuda::kQueueCounterBytes);
      }
    }
    size_t end = 0;
    for (const auto& [from, to] : pieces) {
      EXPECT_GE(from, end) << "owner " << owner;
      end = to;
    }
    EXPECT_LE(end, mailboxes.bytes()) << "owner " << owner;
  }
}

TEST(GpuMailboxes, TakeNothingWhereNobodySharesANode) {
  EXPECT_EQ(mailboxesOf({"a", "b", "c"}).bytes(), 0U);
  EXPECT_GT(mailboxesOf({"a", "b", "a"}).bytes(), 0U);
}

}  // namespace
}  // namespace horing
