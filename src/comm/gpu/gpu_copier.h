#pragma once
// Who has a GPU copy between its memory and the host's while the host goes on: its driver (comm/gpu/driver_copier.h), or a kernel that runs
// on the caller's stream (comm/gpu/kernel_copier.h).
#include <cstddef>
#include <cstdint>

#include "cuda/api.h"

namespace horing {

// Of one thread.
class GpuCopier {
 public:
  enum class Direction { kFromGpu, kToGpu };

  virtual ~GpuCopier() = default;
  // Copies that are under way at the same time come in any order. The number is for isDone(), until that says so.
  virtual Result<uint64_t> start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) = 0;
  virtual Result<bool> isDone(uint64_t copy) = 0;
  // Whether some may still be under way when the caller's stream has gone on.
  virtual bool isCopying() const = 0;
  // Whether it takes memory of the host that is not pinned.
  virtual bool takesAnyMemory() const = 0;
};

}  // namespace horing
