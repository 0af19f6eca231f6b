#include "comm/gpu/queue_sizes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/gpu/bridged_queues.h"

namespace horing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Sized {
  GpuMailboxes mailboxes;
  GpuQueueSizes sizes;
  size_t ranks;
};

Sized sizesOf(const std::vector<int>& ranks_of_nodes, int32_t window = 4) {
  std::vector<std::string> nodes;
  for (size_t node = 0; node < ranks_of_nodes.size(); ++node)
    nodes.insert(nodes.end(), static_cast<size_t>(ranks_of_nodes[node]), "node " + std::to_string(node));
  const size_t ranks = nodes.size();
  Sized made{GpuMailboxes(std::move(nodes)), {}, ranks};
  made.sizes = GpuQueueSizes::choose(made.mailboxes, ranks, window);
  made.mailboxes.setShape(made.sizes.shape, cuda::bridgeChannel(0, made.sizes.parts), made.sizes.spare_bytes);
  return made;
}

TEST(GpuQueueSizes, LeaveRoomForPlansBesideSlotsOfAdapters) {
  for (const int nodes : {2, 3, 4, 16})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const Sized made = sizesOf(std::vector<int>(static_cast<size_t>(nodes), ranks));
      // Between lanes of a rank, of a leader of ho_leaders.
      const size_t scratch = ranks <= 4 || nodes <= 4 ? 10 * kMiB : 8 * kMiB;
      EXPECT_LE(made.mailboxes.bytes() + BridgedQueues::kGpuBytes + scratch, cuda::kGpuMemoryBytes)
          << nodes << " nodes of " << ranks;
    }
}

TEST(GpuQueueSizes, KeepToTheirMemoryWhateverTheWindow) {
  for (const int32_t window : {1, 4, 16, 64})
    for (const int nodes : {1, 2, 40})
      for (const int ranks : {1, 2, 8, 16, 64}) {
        if (nodes * ranks == 1) continue;
        const Sized made = sizesOf(std::vector<int>(static_cast<size_t>(nodes), ranks), window);
        // For mailboxes that are too large no rank makes an offer.
        if (made.mailboxes.spareBegin() <= GpuNeighbors::kMostBytes) {
          EXPECT_LE(made.mailboxes.bytes(), 24 * kMiB)
              << nodes << " nodes of " << ranks << ", window " << window;
        }
        EXPECT_LE(made.sizes.planBytes(made.ranks - static_cast<size_t>(ranks)),
                  GpuQueueSizes::kMostPlanBytes);
        EXPECT_LE(made.sizes.spareEndsBytes(), 19 * kMiB);
        EXPECT_GE(made.sizes.parts, made.sizes.bridged_parts);
      }
}

TEST(GpuQueueSizes, AreThoseOfTheReadme) {
  const Sized two_nodes = sizesOf({8, 8});
  EXPECT_EQ(two_nodes.sizes.shape.slot_bytes, 32768U);
  EXPECT_EQ(two_nodes.sizes.bridged_parts, 4);
  EXPECT_EQ(two_nodes.sizes.mostBridgedParts(), 16);
  EXPECT_EQ(two_nodes.sizes.messageParts(8), 4);
  EXPECT_EQ(two_nodes.sizes.spareEnds(), 32U);
  // Kernels send to as many proxied ranks as one takes flows of.
  EXPECT_EQ(sizesOf(std::vector<int>(33, 1)).sizes.messageParts(32), 1);
}

// All ranks lay spare queues alike, and one alone has nothing that others know the place of.
TEST(GpuQueueSizes, HaveNoSpareQueuesWhereARankIsAlone) {
  EXPECT_GT(sizesOf({3, 2}).sizes.spare_bytes, 0U);
  EXPECT_EQ(sizesOf({3, 1}).sizes.spare_bytes, 0U);
  EXPECT_EQ(sizesOf({1, 1}).sizes.spare_bytes, 0U);
}

}  // namespace
}  // namespace horing
