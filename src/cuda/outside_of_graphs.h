#pragma once
// Calls of CUDA that must not become part of a graph, nor end its recording.
#include "cuda/api.h"

namespace horing {

// While this object exists, this thread may allocate, copy and query on streams outside graphs although the program records a graph: in
// this thread or, in CUDA's default mode, in any thread.
class OutsideOfGraphs {
 public:
  explicit OutsideOfGraphs(const CudaApi& api) : api_(api) { api_.exchange_capture_mode(&mode_); }
  ~OutsideOfGraphs() { api_.exchange_capture_mode(&mode_); }
  OutsideOfGraphs(const OutsideOfGraphs&) = delete;
  OutsideOfGraphs& operator=(const OutsideOfGraphs&) = delete;

 private:
  const CudaApi& api_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

}  // namespace horing
