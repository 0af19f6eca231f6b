#pragma once
// The arguments of a kernel that works on the elements of vectors one by one, or adds up their squares.
#include <cstdint>

#include "base/types.h"

namespace horing::cuda {

enum class ElementWork : int32_t {
  kConvert,     // to[i] = from[i]
  kAccumulate,  // to[i] += factor * from[i]
  kScale,       // to[i] *= factor
  kAddSquares  // to[thread] += the squares of the thread's elements of `from`; `to`: a SquareSum for each thread of the grid
};

// The sum of the squares of elements, and how many of the elements are infinite or NaN.
struct SquareSum {
  double sum = 0;
  double not_finite = 0;
};

// Passed by value. Vectors are in GPU memory and aligned to their elements, whose types are float16, bfloat16, float32 or float64. They do
// not overlap.
struct ElementCall {
  ElementWork work = ElementWork::kConvert;
  DataType from_type = DataType::kFloat32;
  DataType to_type = DataType::kFloat32;
  const void* from = nullptr;
  void* to = nullptr;
  uint64_t count = 0;  // elements of `from`; of `to`, for kScale
  double factor = 1;
};

}  // namespace horing::cuda
