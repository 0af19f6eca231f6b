#pragma once
// The memory of one rank's queues that hosts carry (comm/gpu/proxy.h): pinned, so that kernels and host reach it, and adapters, which send
// from its slots and write into them. Slots of queues that only adapters move are in the GPU's memory instead, as far as there is room: so
// kernels need not cross PCIe for what they read and write, and adapters move it from GPU to GPU (cuda/adapter_memory.h).
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

// A resource; one thread at a time. The proxies that carry the queues must be gone before it.
class BridgedQueues {
 public:
  // Of the GPU's memory, what slots may take.
  static constexpr size_t kGpuBytes = size_t{8} << 20;

  // What may find room whatever else there is: queues of plans, those of parts that few plans have, and those of messages.
  enum class Use : uint8_t { kPlan, kSpare, kMessages };
  struct Bytes {
    size_t plans = 0, spare = 0, messages = 0;
  };
  // All pinned memory at once, for asking for more may wait for kernels that run. Errors: kUnhandledCudaError.
  static Result<std::unique_ptr<BridgedQueues>> make(const std::shared_ptr<const CudaDevice>& device,
                                                     const cuda::QueueShape& shape, const Bytes& bytes);
  BridgedQueues(const BridgedQueues&) = delete;
  BridgedQueues& operator=(const BridgedQueues&) = delete;

  // Slots may be in this memory of the GPU, of which it takes its part at once, if adapters can have that and the GPU finds what they write
  // without a call of the driver: that might wait for the program to free memory, which waits for kernels, which wait for what was written.
  // Else the log tells why not.
  void useGpu(const CudaDevice& device, cuda::Memory& memory, const AdapterWays& ways, const Log& log);
  // All memory so far, to these transports of proxies that have not started yet.
  void lendTo(GpuProxies& proxies, const std::set<size_t>& transports) const;
  // That part; empty: there is none.
  std::span<const std::byte> gpuSlots() const { return gpu_slots_; }

  struct Made {
    cuda::Queue queue;
    MemoryOf slots;
  };
  // `by_adapters`: adapters that have gpuSlots() move it.
  Result<Made> queue(Use use, bool by_adapters);
  // What was made so far stays for good; what was made since then goes.
  void keep();
  Status giveBack();

  // Pinned.
  uint64_t memoryBytes() const;
  // Kernels may still use it: it is never freed.
  void leak();

 private:
  explicit BridgedQueues(const cuda::QueueShape& shape) : shape_(shape) {}

  const cuda::QueueShape shape_;
  std::vector<Region> regions_;  // of all memory
  struct Pinned {
    std::unique_ptr<cuda::Memory> memory{};  // null: there are no such queues
    size_t kept = 0;
  };
  std::array<Pinned, 3> pinned_;  // by use
  Log log_;
  bool said_ = false;    // that not all slots are in the GPU's memory
  AdapterMemory found_;  // how adapters find the GPU's
  std::span<std::byte> gpu_slots_;
  cuda::Arena arena_;  // of these
  size_t kept_slots_bytes_ = 0;
};

}  // namespace horing
