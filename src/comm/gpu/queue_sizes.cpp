#include "comm/gpu/queue_sizes.h"

#include <algorithm>

namespace horing {

namespace {
// The number of proxied ranks whose queues always fit; a plan with more may run out of memory, and is then staged by the host.
constexpr size_t kProxiedOfBudget = 8;
}  // namespace

// Links have few channels, and bridged queues little memory; queues between neighbors need neither. Ranks of one node, which may all be
// neighbors, have as many queues as ranks that are threads. A ring through several nodes moves far more inside nodes than between them: it
// has spare queues for both.
GpuQueueSizes GpuQueueSizes::choose(const GpuMailboxes& mailboxes, size_t ranks, int32_t window) {
  GpuQueueSizes sizes;
  // Two windows, so that a sender need not wait for each credit that the proxies carry.
  sizes.bridged_shape.slots = std::min(2 * static_cast<uint32_t>(window) + 1, kMaxSlots);
  const auto mailboxesBytes = [&](const cuda::QueueShape& tried, int32_t in_parts) {
    return mailboxes.bytes(tried, cuda::bridgeChannel(0, in_parts));
  };
  const auto mailboxesFit = [&](const cuda::QueueShape& tried, int32_t in_parts) {
    return mailboxesBytes(tried, in_parts) <= GpuNeighbors::kMostBytes;
  };
  const auto hostsFit = [&](const cuda::QueueShape& tried, int32_t in_parts) {
    const cuda::QueueShape bridged{sizes.bridged_shape.slots, tried.slot_bytes};
    return kLinkChannels * bytesOf(bridged, std::min(ranks - 1, kProxiedOfBudget), in_parts) <=
           kMostPlanBytes;
  };
  sizes.bridged_parts = cuda::kMaxPartsOfLink;
  if (mailboxes.mostNeighbors() + 1 == ranks) {
    const cuda::GpuQueues queues = cuda::gpuQueues(ranks, window);
    sizes.shape = queues.shape;
    sizes.parts = queues.parts;
    sizes.spare_bytes = cuda::kGpuSpareQueueBytes;
    while (!mailboxesFit(sizes.shape, sizes.parts) && sizes.parts > 1) --sizes.parts;
  } else {
    sizes.shape = cuda::gpuQueueShape(window + 1, [&](const cuda::QueueShape& tried) {
      return mailboxesFit(tried, sizes.bridged_parts) && hostsFit(tried, sizes.bridged_parts);
    });
    sizes.parts = sizes.bridged_parts;
    while (!(mailboxesFit(sizes.shape, sizes.parts) && hostsFit(sizes.shape, sizes.parts)) && sizes.parts > 1)
      --sizes.parts;
    // A rank alone in its node has no mailboxes, and so no queues with offsets known to other ranks.
    if (const size_t taken = mailboxesBytes(sizes.shape, sizes.parts);
        mailboxes.leastNeighbors() > 0 && taken < kMostSharedBytes)
      sizes.spare_bytes = std::min(cuda::kGpuSpareQueueBytes, kMostSharedBytes - taken);
  }
  sizes.bridged_shape.slot_bytes = sizes.shape.slot_bytes;
  sizes.bridged_parts = std::min(sizes.bridged_parts, sizes.parts);
  while (!hostsFit(sizes.shape, sizes.bridged_parts) && sizes.bridged_parts > 1) --sizes.bridged_parts;
  return sizes;
}

size_t GpuQueueSizes::planBytes(size_t proxied) const {
  return std::min(kLinkChannels * messageBytes(proxied, bridged_parts), kMostPlanBytes);
}

int32_t GpuQueueSizes::messageParts(size_t most_proxied) const {
  int32_t of_messages = bridged_parts;
  while (of_messages > 0 && messageBytes(most_proxied, of_messages) > kMostMessageBytes) --of_messages;
  return of_messages;
}

}  // namespace horing
