#include "engine/host/fold.h"

#include <algorithm>
#include <cstring>

#include "engine/host/fold_isa.h"

#ifdef HORING_FOLD_X86
#include <cpuid.h>
#endif

namespace horing {

#ifdef HORING_FOLD_X86
namespace {

// clang 14 does not know "f16c" as a word for __builtin_cpu_supports.
bool hasF16c() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

Simd detectSimd() {
#ifdef HORING_FOLD_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return Simd::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && hasF16c()) return Simd::kAvx2;
#endif
  return Simd::kPlain;
}

const char* simdName(Simd simd) {
  switch (simd) {
    case Simd::kPlain:
      return "plain";
    case Simd::kAvx2:
      return "avx2";
    case Simd::kAvx512:
      return "avx512";
  }
  return "unknown";
}

FoldFunction foldFunction(DataType type, RedOp op, Simd simd) {
#ifdef HORING_FOLD_X86
  if (simd == Simd::kAvx512) return foldFunctionAvx512(type, op);
  if (simd == Simd::kAvx2) return foldFunctionAvx2(type, op);
#else
  (void)simd;
#endif
  return foldFunctionPlain(type, op);
}

void copyBytes(const std::byte* source, std::byte* first, std::byte* second, size_t bytes) {
  if (bytes == 0) return;
  // memcpy may not be given the same range twice.
  if (second == source || second == first) second = nullptr;
  if (first == source) {
    first = second;
    second = nullptr;
  }
  if (first == nullptr) return;
  if (second == nullptr) {
    std::memcpy(first, source, bytes);
    return;
  }
  // Piece by piece, so that the second copy finds the piece in the first-level cache.
  constexpr size_t kPieceBytes = 8 * 1024;
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    size_t piece = std::min(kPieceBytes, bytes - at);
    // Hides that it is small: for that g++ writes `rep movsq`, which takes longer to start than the library's memcpy.
    asm("" : "+r"(piece));
    std::memcpy(first + at, source + at, piece);
    std::memcpy(second + at, source + at, piece);
  }
}

}  // namespace horing
