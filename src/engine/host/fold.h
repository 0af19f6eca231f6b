#pragma once
// The arithmetic of a step: fold operands, scale, round once, store to one place or several.
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"
#include "schedule/schedule.h"

namespace horing {

// The factor of inputs as they are read. Avg of floating point is a sum with the factor 1/ranks.
struct Factor {
  double number = 1;     // floating point types: as float32, or float64 for float64
  uint64_t integer = 1;  // integers: modulo 2^64, so it serves every narrower type
};
// Reads one element of the type, at any alignment.
Factor factorFrom(DataType type, const void* scalar);

// value[e] = sources[0][e] (+) sources[1][e] (+) ... from the left; stored to every destination.
//   - float16, bfloat16 and both float8 accumulate in float32 and are rounded (nearest even) once, at the
//     store (engine/host/float_formats.h says how each overflows); float32 and float64 in their own type;
//     integers wrap around.
//   - premulsum, and avg of floating point: a source flagged in `is_input` is multiplied by `factor` when read (in
//     float32, or float64 for float64; integers wrap around), and the products are summed.
//   - avg of integers: the folded sum is divided by `ranks` (towards zero) at the store if `is_final`.
//   - min and max: the result is one of the operands, bit for bit; -0 is
//     below +0; if any operand is NaN the result is NaN, whatever the order.
//   - band, bor and bxor: integers only, bit by bit.
//   - a NaN result is the positive quiet NaN of its type, whichever NaN went in; a copy (one source, nothing
//     to scale) keeps every bit.
// The floating point environment must be the default one (base/float_environment.h).
struct FoldArguments {
  const std::byte* const* sources = nullptr;
  const bool* is_input = nullptr;  // one per source; only read for avg and premulsum; null: none is an input
  int source_count = 0;            // 1 .. kMaxSources
  // A destination may equal a source, but not overlap one otherwise.
  std::byte* const* destinations = nullptr;
  int destination_count = 0;  // at least 1
  size_t count = 0;           // elements
  Factor factor;
  int32_t ranks = 1;  // at least 1
  bool is_final = false;
  // Destinations from this index on are stored past the caches if the machine can: those whose elements share 64-byte alignment
  // with the last one. Call streamFence() before other ranks may read the data.
  int streams_from = INT_MAX;
};

// Any alignment is correct; 64 bytes is fast. Thread-safe: uses only its arguments; never fails, allocates or blocks.
using FoldFunction = void (*)(const FoldArguments&);

enum class Simd { kPlain, kAvx2, kAvx512 };

// The best that this CPU has, detected at run time.
Simd detectSimd();
const char* simdName(Simd simd);

// Every `simd` gives the same bits; it must be at most detectSimd() (a larger one is an illegal instruction). One source without
// scaling is copied. Null for a type that lacks the operation (hasRedOp).
FoldFunction foldFunction(DataType type, RedOp op, Simd simd);

// Copies `bytes` to one or two destinations (`second` may be null), each of which may be the source; for all-gather, which folds
// nothing.
void copyBytes(const std::byte* source, std::byte* first, std::byte* second, size_t bytes);

// Copies `bytes` past the caches to all destinations, if the machine can: for large results that are not read soon. Any alignment;
// destinations overlap neither each other nor the source. Call streamFence() before other ranks may read the data.
void streamBytes(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes);
void streamFence();

}  // namespace horing
