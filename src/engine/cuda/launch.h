#pragma once
// From a prepared call to a kernel on a stream of CUDA; and the memory of a GPU. What the runtime of CUDA refuses is
// kUnhandledCudaError with its text.
#include <memory>

#include "engine/cuda/bound_plan.h"

namespace horing::cuda {

// Launches the call on `stream` (a cudaStream_t) of the current device, asynchronously. All blocks of all ranks that share a
// GPU and wait for each other must be resident at once: mostResidentBlocks().
Status launch(const BoundPlan& plan, const LaneCall& call, DataType type, RedOp op, void* stream);

// Blocks of this kernel that the current device holds at once.
Result<int> mostResidentBlocks(DataType type, RedOp op);

// The number of GPUs; 0 where there is no driver or none is visible.
int deviceCount();

// Of one GPU. Sets the current device of threads that use it.
Result<std::unique_ptr<Memory>> makeDeviceMemory(int device);

// A flag in memory of the host that kernels read.
class PinnedFlag {
 public:
  static Result<std::unique_ptr<PinnedFlag>> make();
  PinnedFlag(const PinnedFlag&) = delete;
  PinnedFlag& operator=(const PinnedFlag&) = delete;
  ~PinnedFlag();
  void set(uint32_t value);
  const uint32_t* address() const { return flag_; }

 private:
  explicit PinnedFlag(uint32_t* flag) : flag_(flag) {}
  uint32_t* flag_;
};

}  // namespace horing::cuda
