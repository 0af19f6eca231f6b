#pragma once
// What the library has taken of GPUs: it goes back to the driver only when all of it can.
//
// A driver that frees memory, or unloads a kernel, may wait until the GPU, and every other one that reaches its memory, has done all
// that it was told. There a kernel of another communicator may wait for a call that the same thread has yet to make. So what is given
// back is kept for whoever asks next, and freed when nobody has any left: each kernel, and each stream that waits for the host, is of
// someone who has some.
//
// What is kept is never more than was in use at once, size for size.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cuda/device.h"

namespace horing {

// Of the process. A resource; any thread.
class CudaReserve {
 public:
  enum class Kind { kGpu, kPinned };

  static CudaReserve& ofProcess();
  CudaReserve(const CudaReserve&) = delete;
  CudaReserve& operator=(const CudaReserve&) = delete;

  // At least so many bytes, with whatever they held before; aligned to a page. Errors: the driver's, as it says them.
  Result<void*> take(const std::shared_ptr<const CudaDevice>& device, Kind kind, size_t bytes);
  // Which nothing uses any more.
  void giveBack(std::shared_ptr<const CudaDevice> device, Kind kind, void* at, size_t bytes) noexcept;

  // Something else: it stays while anybody has some of the reserve, and this is such a one.
  class Use {
   public:
    explicit Use(std::shared_ptr<const void> what) { ofProcess().enter(std::move(what)); }
    ~Use() { ofProcess().leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

  // Something that was taken is never given back, and does not keep the rest here: no kernel of this process uses it.
  void forget();

  // Bytes that nobody has.
  struct Kept {
    uint64_t of_gpus = 0, pinned = 0;
  };
  Kept kept() const;

 private:
  CudaReserve() = default;
  using Name = std::tuple<int, Kind, size_t>;  // GPU, bytes
  struct Piece {
    std::shared_ptr<const CudaDevice> device;
    void* at;
  };
  void enter(std::shared_ptr<const void> what);
  void leave();
  void freeAll();

  mutable std::mutex mutex_;
  size_t users_ = 0;
  std::multimap<Name, Piece> pieces_;
  std::vector<std::shared_ptr<const void>> others_;
};

}  // namespace horing
