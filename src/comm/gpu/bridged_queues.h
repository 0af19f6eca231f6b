#pragma once
// The memory of one rank's queues that hosts carry (comm/gpu/proxy.h). It is pinned, so that kernels, the host and adapters can access it;
// adapters send from its slots and write into them. Slots of queues that only adapters move are in GPU memory instead, as far as there is
// room: kernels then do not access slots over PCIe, and adapters move data from GPU to GPU (cuda/adapter_memory.h).
#include <array>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/log.h"
#include "comm/gpu/proxies.h"
#include "cuda/adapter_memory.h"
#include "cuda/device.h"
#include "engine/cuda/arena.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/queue.h"

namespace horing {

// A resource; one thread at a time. Destroy the proxies that carry the queues first.
class BridgedQueues {
 public:
  // The GPU memory that slots may take.
  static constexpr size_t kGpuBytes = size_t{8} << 20;

  // Uses with reserved memory: queues of any plan, spare queues for further parts of some plans, and queues of messages.
  enum class Use : uint8_t { kPlan, kSpare, kMessages };
  struct Bytes {
    size_t plans = 0, spare = 0, messages = 0;
  };
  // Allocates all pinned memory at once, since a later allocation may wait for running kernels. Errors: kUnhandledCudaError.
  static Result<std::unique_ptr<BridgedQueues>> make(const std::shared_ptr<const CudaDevice>& device,
                                                     const cuda::QueueShape& shape, const Bytes& bytes);
  BridgedQueues(const BridgedQueues&) = delete;
  BridgedQueues& operator=(const BridgedQueues&) = delete;

  // Takes part of this GPU memory for slots, if adapters can access it and the GPU sees their writes without a driver call. (A driver call
  // might wait for the program to free memory, which waits for kernels, which wait for these writes.) Otherwise the log tells why not.
  void useGpu(const CudaDevice& device, cuda::Memory& memory, const AdapterWays& ways, const Log& log);
  // Lends all memory so far to these transports of proxies that have not started yet.
  void lendTo(GpuProxies& proxies, const std::set<size_t>& transports) const;
  // The GPU memory for slots; empty: none.
  std::span<const std::byte> gpuSlots() const { return gpu_slots_; }

  struct Made {
    cuda::Queue queue;
    MemoryOf slots;
  };
  // `by_adapters`: adapters that can access gpuSlots() move the queue.
  Result<Made> queue(Use use, bool by_adapters);

  // Pinned memory.
  uint64_t memoryBytes() const;
  // For memory that kernels may still use: it is never freed.
  void leak();

 private:
  explicit BridgedQueues(const cuda::QueueShape& shape) : shape_(shape) {}

  const cuda::QueueShape shape_;
  std::vector<Region> regions_;                          // of all memory
  std::array<std::unique_ptr<cuda::Memory>, 3> pinned_;  // indexed by use; null: no queues of it
  Log log_;
  bool said_ = false;    // logged that not all slots are in GPU memory
  AdapterMemory found_;  // how adapters access GPU memory
  std::span<std::byte> gpu_slots_;
  cuda::Arena arena_;  // of gpu_slots_
};

}  // namespace horing
