#pragma once
// Arithmetic of the floating-point types of parameters.
#include <cstddef>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

// 2, 4 or 8; 0 for a type that parameters cannot have.
size_t bytesOf(horingDataType_t type);
const char* nameOf(horingDataType_t type);
// The type of state: float64 for float64, float32 for all others.
horingDataType_t stateTypeOf(horingDataType_t wire);

// to[i] = from[i], rounded to nearest, ties to even; a value that is too large becomes infinity. The buffers do not overlap.
void convert(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type, size_t count);
// sum[i] += factor * added[i], in float32 for the 16-bit types.
void accumulate(void* sum, const void* added, horingDataType_t type, size_t count, double factor = 1);
// values[i] *= factor, likewise.
void scale(void* values, double factor, horingDataType_t type, size_t count);

// The sum of squares of a vector in float64; infinite or NaN if an element is.
double sumOfSquares(const void* values, horingDataType_t type, size_t count);
bool allFinite(const void* values, horingDataType_t type, size_t count);

}  // namespace horing::paro
