// Folding with AVX-512 F, BW, VL and DQ. Compiled with their flags, so nothing here may run unless detectSimd() allows it.
#include <immintrin.h>

#include "engine/host/fold_isa.h"
#include "engine/host/fold_kernels.h"

namespace horing {
namespace {

struct Avx512 : Vectors<64> {
  static constexpr bool kConvertsHalf = true;

  // float16 lanes 0-15 to part 0, 16-31 to part 1.
  static void widenHalf(Bits bits, Of<float>* part) {
    const __m512i halves = reinterpret_cast<__m512i>(bits);
    part[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    part[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  }
  static Bits narrowHalf(const Of<float>* part) {
    const __m256i low = _mm512_cvtps_ph(part[0], _MM_FROUND_TO_NEAREST_INT);
    const __m256i high = _mm512_cvtps_ph(part[1], _MM_FROUND_TO_NEAREST_INT);
    return reinterpret_cast<Bits>(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }

  static void stream(std::byte* to, Bits bits) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(bits));
  }

  static Bits loadSome(const std::byte* from, size_t bytes) {
    return reinterpret_cast<Bits>(_mm512_maskz_loadu_epi8(first(bytes), from));
  }
  static void storeSome(std::byte* to, Bits bits, size_t bytes) {
    _mm512_mask_storeu_epi8(to, first(bytes), reinterpret_cast<__m512i>(bits));
  }

  static Bits smaller(Bits a, Bits b) {
    return reinterpret_cast<Bits>(
        _mm512_min_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  static Bits larger(Bits a, Bits b) {
    return reinterpret_cast<Bits>(
        _mm512_max_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  static Of<float> less(Of<float> a, Of<float> b) { return _mm512_min_ps(a, b); }
  static Of<double> less(Of<double> a, Of<double> b) { return _mm512_min_pd(a, b); }

 private:
  static __mmask64 first(size_t bytes) { return (__mmask64{1} << bytes) - 1; }
};

}  // namespace

FoldFunction foldFunctionAvx512(DataType type, RedOp op) {
  return foldFunctionOf<Avx512>(type, op);
}

}  // namespace horing
