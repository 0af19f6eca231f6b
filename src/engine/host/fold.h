#pragma once
// The arithmetic of a step: fold operands, scale, round once, store to one or two places.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace horing {

inline constexpr int kMaxFoldSources = 1024;

// value[e] = sources[0][e] (+) sources[1][e] (+) ... from the left; stored to every destination.
//   - float16, bfloat16 and both float8 accumulate in float32 and are rounded (nearest even) once, at the store;
//     float32 and float64 in their own type; integers wrap around.
//   - avg: a source flagged in `is_input` is multiplied by 1/ranks when read, for floating point types (in float32, or
//     float64 for float64); for integers the folded sum is divided by `ranks` (towards zero) at the store if `is_final`.
//   - min and max: if any operand is NaN the result is NaN, whatever the order.
struct FoldArguments {
  const std::byte* const* sources = nullptr;
  const bool* is_input = nullptr;  // one per source; only read for avg
  int source_count = 0;            // 1 .. kMaxFoldSources
  std::byte* destinations[2] = {nullptr, nullptr};  // the second may be null; a destination may equal a source, not overlap it otherwise
  size_t count = 0;                // elements
  int32_t ranks = 1;
  bool is_final = false;
};

// Any alignment of the element type's size is right; 64 bytes is fast.
using FoldFunction = void (*)(const FoldArguments&);

enum class Simd { kPlain, kAvx2, kAvx512 };

// The best that this CPU has, found at run time.
Simd detectSimd();
const char* simdName(Simd simd);

// Same bits from every `simd`. Sources of one step and no scaling are a copy, and the function knows.
FoldFunction foldFunction(DataType type, RedOp op, Simd simd);

// Copies `bytes` to one or two destinations; for all-gather, where there is nothing to fold.
void copyBytes(const std::byte* source, std::byte* first, std::byte* second, size_t bytes);

}  // namespace horing
