#pragma once
// Asynchronous copies between GPU and host memory: by the driver (comm/gpu/driver_copier.h), or by a kernel on the caller's stream
// (comm/gpu/kernel_copier.h).
#include <cstddef>
#include <cstdint>

#include "cuda/api.h"

namespace horing {

// Used by one thread.
class GpuCopier {
 public:
  enum class Direction { kFromGpu, kToGpu };

  virtual ~GpuCopier() = default;
  // Starts a copy. Concurrent copies complete in any order. Returns a number for isDone(), valid until isDone() returns true.
  virtual Result<uint64_t> start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) = 0;
  virtual Result<bool> isDone(uint64_t copy) = 0;
  // Whether copies may still be in flight after the caller's stream has continued.
  virtual bool isCopying() const = 0;
  // Whether host memory may be unpinned.
  virtual bool takesAnyMemory() const = 0;
};

}  // namespace horing
