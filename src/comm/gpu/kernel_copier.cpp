#include "comm/gpu/kernel_copier.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/reserve.h"
#include "engine/cuda/device.h"

namespace horing {

namespace {
constexpr size_t kCountBytes = (1 + cuda::kCopyBlocks) * sizeof(cuda::CopyCount);
}  // namespace

Result<std::unique_ptr<KernelCopier>> KernelCopier::create(const std::shared_ptr<const CudaDevice>& device,
                                                           size_t most_copies) {
  // This kernel ends only after host work that begins after the launch.
  if (CudaDevice::launchesBlock())
    return makeStatus(Code::kUnhandledCudaError,
                      "CUDA_LAUNCH_BLOCKING is set: no kernel can wait for a host");
  std::shared_ptr<cuda::LaneGpu> gpu = cuda::LaneGpu::of(device);
  HORING_TRY(gpu->loadCopy());
  HORING_ASSIGN(PinnedMemory memory,
                PinnedMemory::allocate(device, kCountBytes + most_copies * sizeof(cuda::CopyRequest)));
  return std::unique_ptr<KernelCopier>(
      new KernelCopier(std::move(gpu), std::move(memory), static_cast<uint32_t>(most_copies)));
}

KernelCopier::KernelCopier(std::shared_ptr<cuda::LaneGpu> gpu, PinnedMemory memory, uint32_t room)
    : gpu_(std::move(gpu)),
      memory_(std::move(memory)),
      room_(room),
      counts_(reinterpret_cast<cuda::CopyCount*>(memory_.data())),
      requests_(reinterpret_cast<cuda::CopyRequest*>(memory_.data() + kCountBytes)) {
  std::uninitialized_default_construct_n(counts_, 1 + cuda::kCopyBlocks);
  std::uninitialized_default_construct_n(requests_, room_);
}

// Also keeps the kernel loaded, which may still run.
void KernelCopier::leak() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<cuda::LaneGpu>>;
  memory_.leak();
  CudaReserve::ofProcess().forget();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(gpu_));
}

Status KernelCopier::launch(const uint32_t* reached, uint32_t last, const uint32_t* ended,
                            CudaStream stream) {
  cuda::CopyCall call;
  auto* const counts = reinterpret_cast<cuda::CopyCount*>(memory_.address());
  call.posted = counts;
  call.done = counts + 1;
  call.requests = reinterpret_cast<const cuda::CopyRequest*>(memory_.address() + kCountBytes);
  call.room = room_;
  call.blocks = cuda::kCopyBlocks;
  call.reached = reached;
  call.last = last;
  call.ended = ended;
  return gpu_->launch(call, stream);
}

Result<uint64_t> KernelCopier::start(CudaAddress to, CudaAddress from, size_t bytes, Direction) {
  const uint64_t before = counts_->value;
  if (before >= room_ && !hasDone(before - room_ + 1))
    return makeStatus(Code::kInternalError, "a kernel was asked for more copies than there is room for");
  requests_[before % room_] = {reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                               bytes};
  cuda::storeRelease(&counts_->value, before + 1);
  return before + 1;
}

// acquire: pairs with each block's release after its copy.
bool KernelCopier::hasDone(uint64_t requests) const {
  return std::all_of(counts_ + 1, counts_ + 1 + cuda::kCopyBlocks,
                     [&](const cuda::CopyCount& done) { return cuda::loadAcquire(&done.value) >= requests; });
}

}  // namespace horing
