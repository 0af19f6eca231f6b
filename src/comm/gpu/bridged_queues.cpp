#include "comm/gpu/bridged_queues.h"

#include <utility>

#include "engine/cuda/pinned_memory.h"

namespace horing {

namespace {
// Of what is lent to proxies, which have nothing else.
enum RegionId : uint64_t { kPlans = 1, kMessages, kGpuSlots };
}  // namespace

Result<std::unique_ptr<BridgedQueues>> BridgedQueues::make(const std::shared_ptr<const CudaDevice>& device,
                                                           const cuda::QueueShape& shape,
                                                           size_t message_bytes, GpuProxies& proxies) {
  std::unique_ptr<BridgedQueues> made(new BridgedQueues(shape));
  const auto take = [&](RegionId id, size_t bytes) -> Result<std::unique_ptr<cuda::Memory>> {
    HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(device, bytes));
    proxies.lend({.id = id, .begin = memory.data(), .bytes = memory.bytes()});
    return cuda::asMemory(std::move(memory));
  };
  HORING_ASSIGN(made->plans_, take(kPlans, kPlanBytes));
  if (message_bytes > 0) {
    HORING_ASSIGN(made->messages_, take(kMessages, message_bytes));
  }
  return made;
}

void BridgedQueues::useGpu(const CudaDevice& device, cuda::Memory& memory, GpuProxies& proxies,
                           const Log& log) {
  const size_t used = memory.used();
  const Result<std::byte*> begin = memory.allocate(kGpuBytes);
  Result<CudaDmabuf> dmabuf =
      begin.ok() ? exportDmabuf(device, begin.value(), kGpuBytes) : Result<CudaDmabuf>(begin.status());
  if (!dmabuf.ok()) {
    [[maybe_unused]] const Status back = memory.rewind(used);  // or it stays unused
    return log.info("gpu", "adapters move what kernels send from pinned memory, not the GPU's: %s",
                    dmabuf.status().message().c_str());
  }
  dmabuf_ = std::move(dmabuf.value().fd);
  gpu_slots_ = {begin.value(), kGpuBytes};
  arena_ = cuda::Arena(begin.value(), kGpuBytes, "of a GPU for slots");
  proxies.lend({.id = kGpuSlots,
                .begin = begin.value(),
                .bytes = kGpuBytes,
                .dmabuf = dmabuf_.get(),
                .dmabuf_offset = dmabuf.value().offset});
}

Result<BridgedQueues::Made> BridgedQueues::queue(Use use, bool by_adapters) {
  cuda::Memory& pinned = use == Use::kPlan ? *plans_ : *messages_;
  const Result<std::byte*> slots =
      by_adapters ? arena_.allocate(shape_.slotsBytes()) : Result<std::byte*>(nullptr);
  if (slots.ok() && slots.value()) {
    HORING_ASSIGN(const cuda::Queue made, cuda::makeQueue(shape_, slots.value(), pinned));
    return Made{made, MemoryOf::kGpu};
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
