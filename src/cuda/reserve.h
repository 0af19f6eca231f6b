#pragma once
// GPU memory and pinned memory of the library, which returns to the driver only when all of it is unused.
//
// A driver that frees memory, or unloads a kernel, may wait until the GPU, and every GPU with access to its memory, is idle. A kernel of
// another communicator may run there and wait for a later call of the same thread: a deadlock. So memory that is given back is kept for the
// next request, and freed when no memory is in use any more: every owner of a kernel, or of a stream that waits for the host, also owns
// memory of the reserve.
//
// The memory kept never exceeds the peak use, for each size.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cuda/device.h"

namespace horing {

// One for the process. A resource; any thread.
class CudaReserve {
 public:
  enum class Kind { kGpu, kPinned };

  static CudaReserve& ofProcess();
  CudaReserve(const CudaReserve&) = delete;
  CudaReserve& operator=(const CudaReserve&) = delete;

  // At least this many bytes, not zeroed, page-aligned. Errors: the driver's.
  Result<void*> take(const std::shared_ptr<const CudaDevice>& device, Kind kind, size_t bytes);
  // Returns memory that nothing uses any more.
  void giveBack(std::shared_ptr<const CudaDevice> device, Kind kind, void* at, size_t bytes) noexcept;

  // Counts as a user of the reserve, for another resource with the same lifetime rule.
  class Use {
   public:
    explicit Use(std::shared_ptr<const void> what) { ofProcess().enter(std::move(what)); }
    ~Use() { ofProcess().leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };

  // One allocation will never be given back and no longer counts as in use: no kernel of this process uses it.
  void forget();

  // Unused bytes.
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
