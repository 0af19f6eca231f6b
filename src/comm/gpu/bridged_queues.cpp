#include "comm/gpu/bridged_queues.h"

#include <utility>

#include "comm/reach/registrations.h"
#include "engine/cuda/pinned_memory.h"

namespace horing {

Result<std::unique_ptr<BridgedQueues>> BridgedQueues::make(const std::shared_ptr<const CudaDevice>& device,
                                                           const cuda::QueueShape& shape,
                                                           const Bytes& bytes) {
  std::unique_ptr<BridgedQueues> made(new BridgedQueues(shape));
  for (const auto& [use, wanted] :
       {std::pair{Use::kPlan, bytes.plans}, {Use::kSpare, bytes.spare}, {Use::kMessages, bytes.messages}}) {
    if (wanted == 0) continue;
    HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(device, wanted));
    made->regions_.push_back(
        {.id = made->regions_.size() + 1, .begin = memory.data(), .bytes = memory.bytes()});
    made->pinned_[static_cast<size_t>(use)] = cuda::asMemory(std::move(memory));
  }
  return made;
}

void BridgedQueues::useGpu(const CudaDevice& device, cuda::Memory& memory, const AdapterWays& ways,
                           const Log& log) {
  log_ = log;
  const size_t used = memory.used();
  const auto tryTo = [&]() -> Status {
    if (!ordersAdapterWrites(device))
      return makeStatus(Code::kUnhandledCudaError, "GPU %d does not order writes of adapters",
                        device.number());
    HORING_ASSIGN(std::byte* const begin, memory.allocate(kGpuBytes));
    HORING_ASSIGN(found_, adapterMemory(device, begin, kGpuBytes, ways));
    gpu_slots_ = {begin, kGpuBytes};
    regions_.push_back(regionOf(regions_.size() + 1, begin, kGpuBytes, found_));
    return {};
  };
  if (const Status taken = tryTo(); !taken.ok()) {
    [[maybe_unused]] const Status back = memory.rewind(used);  // otherwise the memory stays unused
    return log.info("gpu", "adapters send kernels' messages from pinned memory, not from GPU memory: %s",
                    taken.message().c_str());
  }
  arena_ = cuda::Arena(gpu_slots_.data(), kGpuBytes, "of a GPU for slots");
}

void BridgedQueues::lendTo(GpuProxies& proxies, const std::set<size_t>& transports) const {
  for (const size_t transport : transports)
    for (const Region& region : regions_) proxies.lend(transport, region);
}

Result<BridgedQueues::Made> BridgedQueues::queue(Use use, bool by_adapters) {
  cuda::Memory& pinned = *pinned_[static_cast<size_t>(use)];
  if (by_adapters) {
    const Result<std::byte*> slots = arena_.allocate(shape_.slotsBytes());
    if (slots.ok()) {
      HORING_ASSIGN(const cuda::Queue made, cuda::makeQueue(shape_, slots.value(), pinned));
      return Made{made, MemoryOf::kGpu};
    }
    if (!std::exchange(said_, true))
      log_.info("gpu",
                "adapters move some messages of kernels from pinned memory, since the %zu MiB of GPU memory "
                "for them are full",
                kGpuBytes >> 20);
  }
  HORING_ASSIGN(const cuda::Queue made, cuda::makeQueue(shape_, pinned, pinned));
  return Made{made, MemoryOf::kHost};
}

uint64_t BridgedQueues::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& of_use : pinned_) bytes += of_use ? of_use->bytes() : 0;
  return bytes;
}

void BridgedQueues::leak() {
  for (auto& of_use : pinned_) (void)of_use.release();
}

}  // namespace horing
