// In place of XGBoost's helpers for GPUs: what its code for NCCL and the tests of that take from them, on memory of the host.
#pragma once
#include <cuda_runtime.h>
#include <thrust/copy.h>
#include <thrust/host_vector.h>
#include <thrust/system_error.h>
#include <thrust/system/cuda/error.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common.h"
#include "xgboost/span.h"

namespace dh {

template <typename T>
struct Pointer {
  T* address;
  T* get() const { return address; }
};

template <typename T>
class device_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  Pointer<T> data() { return {std::vector<T>::data()}; }
  Pointer<const T> data() const { return {std::vector<T>::data()}; }
};

template <typename T>
xgboost::common::Span<T> ToSpan(device_vector<T>& values) {
  return {values.data().get(), values.size()};
}

template <typename T>
void CopyDeviceSpanToVector(std::vector<T>* to, xgboost::common::Span<T> from) {
  std::copy(from.data(), from.data() + from.size(), to->begin());
}

template <typename Work>
void LaunchN(std::size_t count, cudaStream_t stream, Work work) {
  safe_cuda(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < count; ++i) work(i);
}

}  // namespace dh
