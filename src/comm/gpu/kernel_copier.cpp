#include "comm/gpu/kernel_copier.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/quotient.h"
#include "engine/cuda/device.h"

namespace horing {

namespace {
constexpr size_t kQueueBytes = cuda::kCopyBlocks * sizeof(cuda::CopyQueue);

// A launch returns when the kernel has ended then. This one ends when the host has done what it begins after the launch.
bool launchesBlock() {
  const char* const blocks = std::getenv("CUDA_LAUNCH_BLOCKING");
  return blocks && std::atoi(blocks) != 0;
}
}  // namespace

Result<std::unique_ptr<KernelCopier>> KernelCopier::create(const std::shared_ptr<const CudaDevice>& device,
                                                           size_t most_copies) {
  if (launchesBlock())
    return makeStatus(Code::kUnhandledCudaError,
                      "CUDA_LAUNCH_BLOCKING is set: no kernel can wait for a host");
  std::shared_ptr<cuda::LaneGpu> gpu = cuda::LaneGpu::of(device);
  HORING_TRY(gpu->loadCopy());
  // Together they have room for all, however few of them have what is not done.
  const size_t room = quotientUp(most_copies, static_cast<size_t>(cuda::kCopyBlocks));
  HORING_ASSIGN(
      PinnedMemory memory,
      PinnedMemory::allocate(device, kQueueBytes + cuda::kCopyBlocks * room * sizeof(cuda::CopyRequest)));
  return std::unique_ptr<KernelCopier>(
      new KernelCopier(std::move(gpu), std::move(memory), static_cast<uint32_t>(room)));
}

KernelCopier::KernelCopier(std::shared_ptr<cuda::LaneGpu> gpu, PinnedMemory memory, uint32_t room)
    : gpu_(std::move(gpu)),
      memory_(std::move(memory)),
      room_(room),
      queues_(reinterpret_cast<cuda::CopyQueue*>(memory_.data())),
      requests_(reinterpret_cast<cuda::CopyRequest*>(memory_.data() + kQueueBytes)) {
  for (int block = 0; block < cuda::kCopyBlocks; ++block) new (queues_ + block) cuda::CopyQueue{};
  for (size_t i = 0; i < size_t{cuda::kCopyBlocks} * room_; ++i) new (requests_ + i) cuda::CopyRequest{};
}

// Nor is a kernel unloaded that may still run.
void KernelCopier::leak() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<cuda::LaneGpu>>;
  memory_.leak();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(gpu_));
}

Status KernelCopier::launch(const uint32_t* reached, uint32_t last, const uint32_t* ended,
                            CudaStream stream) {
  cuda::CopyCall call;
  call.queues = reinterpret_cast<cuda::CopyQueue*>(memory_.address());
  call.requests = reinterpret_cast<const cuda::CopyRequest*>(memory_.address() + kQueueBytes);
  call.room = room_;
  call.blocks = cuda::kCopyBlocks;
  call.reached = reached;
  call.last = last;
  call.ended = ended;
  return gpu_->launch(call, stream);
}

// To the blocks in turns, past those that have no room.
Result<uint64_t> KernelCopier::start(CudaAddress to, CudaAddress from, size_t bytes, Direction) {
  for (int looked_at = 0; looked_at < cuda::kCopyBlocks; ++looked_at) {
    const uint64_t block = turn_++ % cuda::kCopyBlocks;
    cuda::CopyQueue& queue = queues_[block];
    const uint64_t before = queue.posted;
    // acquire: what was done is read no more.
    if (before - cuda::loadAcquire(&queue.done) >= room_) continue;
    requests_[block * room_ + before % room_] = {reinterpret_cast<std::byte*>(to),
                                                 reinterpret_cast<const std::byte*>(from), bytes};
    cuda::storeRelease(&queue.posted, before + 1);
    return (before + 1) * cuda::kCopyBlocks + block;
  }
  return makeStatus(Code::kInternalError, "a kernel was asked for more copies than there is room for");
}

Result<bool> KernelCopier::isDone(uint64_t copy) {
  // acquire: pairs with the block's release behind what it copied.
  return cuda::loadAcquire(&queues_[copy % cuda::kCopyBlocks].done) >= copy / cuda::kCopyBlocks;
}

}  // namespace horing
