#pragma once
// A GPU as the programs of its process share it: its primary context, which CUDA's runtime uses, too.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "cuda/api.h"

namespace horing {

// Keeps the primary context. A resource; any thread.
class CudaDevice {
 public:
  // `number`: in the driver's order. Errors: kUnhandledCudaError.
  static Result<std::shared_ptr<const CudaDevice>> open(const CudaApi& api, int number);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // The GPU of a stream: of the calling thread's context for the default ones.
  static Result<int> ofStream(const CudaApi& api, CudaStream stream);

  // CUDA_LAUNCH_BLOCKING: a launch returns when the kernel has ended.
  static bool launchesBlock();

  // PCI address as the kernel writes it, "0000:3b:00.0".
  static Result<std::string> busOf(const CudaApi& api, int number);

  const CudaApi& api() const { return api_; }
  int number() const { return number_; }
  // kInvalidUsage: the stream is another GPU's, or of a context of its own.
  Status checkStream(CudaStream stream) const;
  // kInvalidUsage: memory of this GPU, of that context (MemoryPlace), is of one of its own.
  Status checkContext(CudaContext context, const char* name, const void* memory) const;
  // For what the library does beside the program's streams, whatever these wait for: it waits for none of them, the default one
  // included, and has a priority of its own, for which GPUs keep queues of the hardware of their own.
  Status makeStream(CudaStream& stream) const;
  // For order alone: it keeps no time.
  Status makeEvent(CudaEvent& event) const;
  // The graph that the stream records, by a number that no other recording has; 0: it records none; kUnknownGraph: the driver does not
  // tell them apart (before CUDA 12.3). Error: kInvalidUsage, something has broken the recording off.
  static constexpr uint64_t kUnknownGraph = UINT64_MAX;
  Result<uint64_t> recordedGraph(CudaStream stream) const;
  // Until the stream has done what it was told so far. Error: `news` is not ok any more, or kTimeout: the deadline has passed, and
  // what the stream was told still comes.
  Status synchronize(CudaStream stream, const std::function<Status()>& news, Deadline deadline) const;
  // The same in every process; of a part of a GPU where it is cut into such (MIG).
  Result<CudaUuid> uuid() const;
  // Whether kernels of several processes run on it at once: NVIDIA's MPS serves this process.
  bool hasMps() const;
  // From now on kernels of this GPU reach memory of that one. Error: they cannot.
  Status reach(const CudaDevice& peer) const;

  // Has a stream of this GPU, which is current, copy from its memory to that of `peer`, which may be itself. To another GPU no kernel
  // does it, and no kernel need reach that memory: it may be mapped by cuMemCreate for its own GPU alone.
  Status push(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from,
              CudaStream stream) const;

  // The same, complete on return; waits a second at most. Whether what one GPU writes into another arrives is known only by looking there:
  // a chipset may drop it while the driver reports peer access.
  Status pushNow(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from) const;
  // What GPU `from` writes to show `to` that it can: not zero, which fresh memory is.
  static constexpr uint64_t proofOf(int from, int to) {
    return 0x686f72696e670000 + (static_cast<uint64_t>(from) << 32) + static_cast<uint64_t>(to) + 1;
  }
  // Why it did not arrive, for messages.
  static constexpr const char* kDroppedWrites =
      "although the driver reports that it reaches it: PCIe switches with ACS, or an IOMMU that translates "
      "(iommu=pt "
      "does not), drop such writes";

  // Makes the context current on this thread while it lives: what the API does belongs to it then.
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

// Memory of the host that every GPU of the process reaches at full speed, of the reserve (cuda/reserve.h). A resource.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  // Aligned to a page, and not zeroed; never part of a graph. Errors: kUnhandledCudaError says how much was asked for.
  static Result<PinnedMemory> allocate(std::shared_ptr<const CudaDevice> device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory() { free(); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Where kernels and stream operations find `data()`.
  CudaAddress address() const { return address_; }
  // Never gives it back: a GPU may still write there.
  void leak();

 private:
  void free();
  std::shared_ptr<const CudaDevice> device_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  CudaAddress address_ = 0;
};

}  // namespace horing
