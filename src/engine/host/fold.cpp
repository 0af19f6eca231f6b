#include "engine/host/fold.h"

#include <algorithm>
#include <cstring>

#include "engine/host/float_formats.h"
#include "engine/host/fold_isa.h"

#ifdef HORING_FOLD_X86
#include <cpuid.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace horing {

#ifdef HORING_FOLD_X86
namespace {

// clang 14 does not accept "f16c" in __builtin_cpu_supports.
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

namespace {

template <class E>
E read(const void* from) {
  E element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

// Sign extended, so that the remainder modulo any width is right.
template <class E>
Factor integerFactor(const void* scalar) {
  return {.integer = static_cast<uint64_t>(static_cast<int64_t>(read<E>(scalar)))};
}

}  // namespace

Factor factorFrom(DataType type, const void* scalar) {
  switch (type) {
    case DataType::kInt8:
      return integerFactor<int8_t>(scalar);
    case DataType::kUint8:
      return integerFactor<uint8_t>(scalar);
    case DataType::kInt32:
      return integerFactor<int32_t>(scalar);
    case DataType::kUint32:
      return integerFactor<uint32_t>(scalar);
    case DataType::kInt64:
    case DataType::kUint64:
      return integerFactor<int64_t>(scalar);
    case DataType::kFloat16:
      return {.number = float16ToFloat(read<uint16_t>(scalar))};
    case DataType::kFloat32:
      return {.number = read<float>(scalar)};
    case DataType::kFloat64:
      return {.number = read<double>(scalar)};
    case DataType::kBfloat16:
      return {.number = bfloat16ToFloat(read<uint16_t>(scalar))};
    case DataType::kFloat8e4m3:
      return {.number = float8e4m3ToFloat(read<uint8_t>(scalar))};
    case DataType::kFloat8e5m2:
      return {.number = float8e5m2ToFloat(read<uint8_t>(scalar))};
  }
  return {};
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
  // memcpy forbids equal source and destination.
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
    // Hides the small size from the compiler: g++ would emit `rep movsq`, which starts more slowly than the library's memcpy.
    asm("" : "+r"(piece));
    std::memcpy(first + at, source + at, piece);
    std::memcpy(second + at, source + at, piece);
  }
}

#ifdef __SSE2__
namespace {

constexpr size_t kLine = 64;

size_t placeInLine(const std::byte* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLine;
}

void copyToAll(const std::byte* source, std::span<std::byte* const> destinations, size_t begin, size_t end) {
  for (std::byte* const destination : destinations)
    std::memcpy(destination + begin, source + begin, end - begin);
}

}  // namespace

void streamBytes(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes) {
  if (destinations.empty()) return;
  const size_t place = placeInLine(destinations[0]);
  for (std::byte* const& destination : destinations.subspan(1)) {
    if (placeInLine(destination) == place) continue;
    for (std::byte* const& one : destinations) streamBytes(source, {&one, 1}, bytes);
    return;
  }
  size_t at = std::min(bytes, (kLine - place) % kLine);
  copyToAll(source, destinations, 0, at);
  // Line by line: each source line is read once, and its stores drain while the next line is read.
  for (; bytes - at >= kLine; at += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                  d = _mm_loadu_si128(from + 3);
    for (std::byte* const destination : destinations) {
      auto* to = reinterpret_cast<__m128i*>(destination + at);
      _mm_stream_si128(to, a);
      _mm_stream_si128(to + 1, b);
      _mm_stream_si128(to + 2, c);
      _mm_stream_si128(to + 3, d);
    }
  }
  copyToAll(source, destinations, at, bytes);
}
void streamFence() {
  _mm_sfence();
}
#else
void streamBytes(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes) {
  for (std::byte* const destination : destinations) std::memcpy(destination, source, bytes);
}
void streamFence() {}
#endif

}  // namespace horing
