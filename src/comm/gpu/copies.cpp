// Large all-gathers of ranks that are threads of one process: each stream copies its rank's block to all outputs once all streams have
// reached the call, and no stream continues before all copies are done. Copies between GPUs occupy no SM.
//
// The last rank that calls enqueues the copies on the streams of all ranks. So every event that a stream waits for has been recorded
// already, and only the program's earlier work can delay a stream: nothing has to be released when a rank fails or leaves. Streams push,
// since writes to another GPU do not wait for a reply as reads do.
#include <mutex>
#include <numeric>

#include "comm/gpu/launches.h"

namespace horing {

bool GpuLaunches::copyNext() {
  // Always in this order: a lock order against deadlock.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& gpu : gpus_) locks.emplace_back(gpu->mutex);
  for (const auto& gpu : gpus_)
    if (!gpu->failed.ok() || !copiesAreNext(*gpu)) return false;
  const Status copied = copyBlocks();
  for (const auto& gpu : gpus_) {
    gpu->failed = copied;
    gpu->launched.notify_all();
  }
  return copied.ok();
}

Status GpuLaunches::copyBlocks() {
  std::vector<int> ranks(ranks_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  HORING_TRY(checkAgreement(ranks));
  for (const auto& gpu : gpus_) {
    const CudaDevice::Current current(gpu->lanes.device());
    HORING_TRY(orderBefore(*gpu, nextStream(*gpu)));
  }
  HORING_TRY(meet());
  for (const int rank : ranks) HORING_TRY(pushBlock(rank));
  HORING_TRY(meet());
  for (const auto& gpu : gpus_) {
    const CudaDevice::Current current(gpu->lanes.device());
    ++gpu->launches;
    ++gpu->launched_so_far.calls;
    HORING_TRY(orderAfter(*gpu, nextStream(*gpu)));
    pop(*gpu, 1);
  }
  return {};
}

Status GpuLaunches::meet() {
  const Gpu& first = *gpus_.front();
  const auto record = [this](const Gpu& gpu) {
    const CudaDevice& device = gpu.lanes.device();
    const CudaDevice::Current current(device);
    return device.api().check(device.api().event_record(at(gpu.ranks.front()).called, nextStream(gpu)),
                              "recording an event");
  };
  const auto wait = [this](const Gpu& gpu, const Gpu& other) {
    const CudaDevice& device = gpu.lanes.device();
    const CudaDevice::Current current(device);
    return device.api().check(
        device.api().stream_wait_event(nextStream(gpu), at(other.ranks.front()).called, 0),
        "ordering streams of two GPUs");
  };
  for (size_t other = 1; other < gpus_.size(); ++other) {
    HORING_TRY(record(*gpus_[other]));
    HORING_TRY(wait(first, *gpus_[other]));
  }
  HORING_TRY(record(first));
  for (size_t other = 1; other < gpus_.size(); ++other) HORING_TRY(wait(*gpus_[other], first));
  return {};
}

// Each rank begins with its successor, so that not all write to one GPU at once.
Status GpuLaunches::pushBlock(int number) {
  const Rank& rank = at(number);
  const CudaDevice::Current current(*rank.device);
  const std::span<const std::byte> block = rank.waiting.front().reads;
  for (size_t distance = 1; distance <= ranks_.size(); ++distance) {
    const Rank& to = ranks_[(static_cast<size_t>(number) + distance) % ranks_.size()];
    std::byte* const place = to.waiting.front().call.output + static_cast<size_t>(number) * block.size();
    if (place == block.data()) continue;  // in place
    // Pinned memory belongs to no GPU.
    const bool is_pinned = rank.waiting.front().is_pinned || to.waiting.front().is_pinned;
    const CudaDevice& target = is_pinned ? *rank.device : *to.device;
    HORING_TRY(rank.device->push(target, place, block, nextStream(*gpus_[rank.gpu])));
  }
  return {};
}

}  // namespace horing
