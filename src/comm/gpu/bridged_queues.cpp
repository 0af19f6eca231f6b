#include "comm/gpu/bridged_queues.h"

#include <utility>

#include "comm/registrations.h"
#include "engine/cuda/pinned_memory.h"

namespace horing {

namespace {
// Of what is lent to proxies, which have nothing else.
enum RegionId : uint64_t { kPlans = 1, kMessages, kGpuSlots };
}  // namespace

Result<std::unique_ptr<BridgedQueues>> BridgedQueues::make(const std::shared_ptr<const CudaDevice>& device,
                                                           const cuda::QueueShape& shape, size_t plan_bytes,
                                                           size_t message_bytes) {
  std::unique_ptr<BridgedQueues> made(new BridgedQueues(shape));
  const auto take = [&](RegionId id, size_t bytes) -> Result<std::unique_ptr<cuda::Memory>> {
    HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(device, bytes));
    made->regions_.push_back({.id = id, .begin = memory.data(), .bytes = memory.bytes()});
    return cuda::asMemory(std::move(memory));
  };
  HORING_ASSIGN(made->plans_, take(kPlans, plan_bytes));
  if (message_bytes > 0) {
    HORING_ASSIGN(made->messages_, take(kMessages, message_bytes));
  }
  return made;
}

void BridgedQueues::useGpu(const CudaDevice& device, cuda::Memory& memory, const AdapterWays& ways,
                           const Log& log) {
  const size_t used = memory.used();
  const auto tryTo = [&]() -> Status {
    if (!ordersAdapterWrites(device))
      return makeStatus(Code::kUnhandledCudaError, "GPU %d does not order what adapters write",
                        device.number());
    HORING_ASSIGN(std::byte* const begin, memory.allocate(kGpuBytes));
    HORING_ASSIGN(found_, adapterMemory(device, begin, kGpuBytes, ways));
    gpu_slots_ = {begin, kGpuBytes};
    regions_.push_back(regionOf(kGpuSlots, begin, kGpuBytes, found_));
    return {};
  };
  if (const Status taken = tryTo(); !taken.ok()) {
    [[maybe_unused]] const Status back = memory.rewind(used);  // or it stays unused
    return log.info("gpu", "adapters move what kernels send from pinned memory, not the GPU's: %s",
                    taken.message().c_str());
  }
  arena_ = cuda::Arena(gpu_slots_.data(), kGpuBytes, "of a GPU for slots");
}

void BridgedQueues::lendTo(GpuProxies& proxies, const std::set<size_t>& transports) const {
  for (const size_t transport : transports)
    for (const Region& region : regions_) proxies.lend(transport, region);
}

Result<BridgedQueues::Made> BridgedQueues::queue(Use use, bool by_adapters) {
  cuda::Memory& pinned = use == Use::kPlan ? *plans_ : *messages_;
  if (by_adapters) {
    const Result<std::byte*> slots = arena_.allocate(shape_.slotsBytes());
    if (slots.ok()) {
      HORING_ASSIGN(const cuda::Queue made, cuda::makeQueue(shape_, slots.value(), pinned));
      return Made{made, MemoryOf::kGpu};
    }
  }
  HORING_ASSIGN(const cuda::Queue made, cuda::makeQueue(shape_, pinned, pinned));
  return Made{made, MemoryOf::kHost};
}

void BridgedQueues::keep() {
  kept_bytes_ = plans_->used();
  kept_slots_bytes_ = arena_.used();
}

Status BridgedQueues::giveBack() {
  arena_.rewind(kept_slots_bytes_);  // no kernel reads of a slot what nobody has written
  return plans_->rewind(kept_bytes_);
}

uint64_t BridgedQueues::memoryBytes() const {
  return plans_->bytes() + (messages_ ? messages_->bytes() : 0);
}

void BridgedQueues::leak() {
  (void)plans_.release();
  (void)messages_.release();
}

}  // namespace horing
