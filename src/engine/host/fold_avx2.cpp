// Folding with AVX2 and F16C. Compiled with their flags, so nothing here may run unless detectSimd() allows it.
#include <immintrin.h>

#include "engine/host/fold_isa.h"
#include "engine/host/fold_kernels.h"

namespace horing {
namespace {

struct Avx2 : Vectors<32> {
  static constexpr bool kConvertsHalf = true;

  static void stream(std::byte* to, Bits bits) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(bits));
  }

  // float16 lanes 0-7 to part 0, 8-15 to part 1.
  static void widenHalf(Bits bits, Of<float>* part) {
    const __m256i halves = reinterpret_cast<__m256i>(bits);
    part[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    part[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  static Bits narrowHalf(const Of<float>* part) {
    const __m128i low = _mm256_cvtps_ph(part[0], _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(part[1], _MM_FROUND_TO_NEAREST_INT);
    return reinterpret_cast<Bits>(_mm256_set_m128i(high, low));
  }

  static Bits smaller(Bits a, Bits b) {
    return reinterpret_cast<Bits>(
        _mm256_min_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Bits larger(Bits a, Bits b) {
    return reinterpret_cast<Bits>(
        _mm256_max_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Of<float> less(Of<float> a, Of<float> b) { return _mm256_min_ps(a, b); }
  static Of<double> less(Of<double> a, Of<double> b) { return _mm256_min_pd(a, b); }
};

}  // namespace

FoldFunction foldFunctionAvx2(DataType type, RedOp op) {
  return foldFunctionOf<Avx2>(type, op);
}

}  // namespace horing
