#pragma once
// A GPU's primary context, which the CUDA runtime uses, too.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "cuda/api.h"

namespace horing {

// Retains the primary context. A resource; any thread.
class CudaDevice {
 public:
  // `number`: in the driver's order. Errors: kUnhandledCudaError.
  static Result<std::shared_ptr<const CudaDevice>> open(const CudaApi& api, int number);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // The GPU of a stream; for default streams, the GPU of the calling thread's context.
  static Result<int> ofStream(const CudaApi& api, CudaStream stream);

  // Whether CUDA_LAUNCH_BLOCKING is set: a launch then returns when the kernel has ended.
  static bool launchesBlock();

  // PCI address as the kernel writes it, "0000:3b:00.0".
  static Result<std::string> busOf(const CudaApi& api, int number);

  const CudaApi& api() const { return api_; }
  int number() const { return number_; }
  // kInvalidUsage: the stream belongs to another GPU, or to a non-primary context.
  Status checkStream(CudaStream stream) const;
  // kInvalidUsage: memory of this GPU belongs to a non-primary context (MemoryPlace).
  Status checkContext(CudaContext context, const char* name, const void* memory) const;
  // Whether the stream was made with cudaStreamNonBlocking, so that it and the default stream do not wait for each other.
  Result<bool> isNonBlocking(CudaStream stream) const;
  // Makes a stream for the library's work beside the program's streams: it does not synchronise with any of them, the default stream
  // included, and has the highest priority, for which GPUs have separate hardware queues.
  Status makeStream(CudaStream& stream) const;
  // Makes an event without timing.
  Status makeEvent(CudaEvent& event) const;
  // The ID of the graph that the stream records, unique among recordings; 0: not recording; kUnknownGraph: the driver gives no IDs (before
  // CUDA 12.3). Error: kInvalidUsage, the recording was invalidated.
  static constexpr uint64_t kUnknownGraph = UINT64_MAX;
  Result<uint64_t> recordedGraph(CudaStream stream) const;
  // Waits for the work enqueued on the stream so far. Errors: that of `news`; kTimeout: the deadline has passed, and the work may still
  // run.
  Status synchronize(CudaStream stream, const std::function<Status()>& news, Deadline deadline) const;
  // The same in every process; with MIG, the UUID of the instance.
  Result<CudaUuid> uuid() const;
  // Whether kernels of several processes run on it concurrently: NVIDIA's MPS serves this process.
  bool hasMps() const;
  // Enables peer access of this GPU's kernels to `peer`'s memory. Error: not possible.
  Status reach(const CudaDevice& peer) const;

  // Enqueues a copy from this GPU, which is current, to `peer`, which may be the same GPU. A copy to another GPU uses no kernel and needs
  // no peer access: the memory may be mapped by cuMemCreate for its own GPU only.
  Status push(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from,
              CudaStream stream) const;

  // The same, complete on return; waits a second at most. The data must be checked at the receiver: a chipset may drop peer writes although
  // the driver reports peer access.
  Status pushNow(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from) const;
  // The value that GPU `from` writes to `to` as a test: not zero, unlike fresh memory.
  static constexpr uint64_t proofOf(int from, int to) {
    return 0x686f72696e670000 + (static_cast<uint64_t>(from) << 32) + static_cast<uint64_t>(to) + 1;
  }
  // The reason why it did not arrive, for messages.
  static constexpr const char* kDroppedWrites =
      "although the driver reports that it reaches it: PCIe switches with ACS, or an IOMMU that translates "
      "(iommu=pt "
      "does not), drop such writes";

  // Makes the context current on this thread while this object exists.
  class Current {
   public:
    explicit Current(const CudaDevice& device) : api_(device.api_) {
      is_pushed_ = api_.push_context(device.context_) == CudaApi::kSuccess;
    }
    ~Current() {
      CudaContext popped = nullptr;
      if (is_pushed_) api_.pop_context(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaApi& api_;
    bool is_pushed_ = false;
  };

 private:
  CudaDevice(const CudaApi& api, int number, CudaContext context)
      : api_(api), number_(number), context_(context) {}

  const CudaApi api_;
  const int number_;
  const CudaContext context_;
};

// Pinned host memory, accessible to every GPU of the process, from the reserve (cuda/reserve.h). A resource.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  // Page-aligned, not zeroed; never part of a graph. Errors: kUnhandledCudaError, with the requested size.
  static Result<PinnedMemory> allocate(std::shared_ptr<const CudaDevice> device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory() { free(); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The device address of `data()`.
  CudaAddress address() const { return address_; }
  // Never frees it: a GPU may still write to it.
  void leak();

 private:
  void free();
  std::shared_ptr<const CudaDevice> device_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  CudaAddress address_ = 0;
};

}  // namespace horing
