#pragma once
// Vectors of one register's width, in the compiler's own vector types, so that one source serves every
// instruction set.
//
// Private to the fold_*.cpp files, each compiled for another instruction set. Everything is in an anonymous namespace, and nothing
// here or in fold_codecs.h and fold_kernels.h calls a function of the standard library: the linker could keep an inline function
// that this file emitted with wide instructions as the only copy for the program.
#include <cstddef>
#include <cstdint>

namespace horing {
namespace {

template <int kVectorBytes>
struct Vectors {
  static constexpr int kBytes = kVectorBytes;

  template <class E>
  struct Typed {
    typedef E Type __attribute__((vector_size(kVectorBytes)));
  };
  template <class E>
  using Of = typename Typed<E>::Type;
  // The unit of loads and stores: a register of elements of any type.
  using Bits = Of<uint32_t>;

  // value - 0 is value, including -0 and NaN, so the compiler removes the subtraction.
  template <class E>
  static Of<E> splat(E value) {
    return value - Of<E>{};
  }

  // Any alignment.
  static Bits load(const std::byte* from) {
    Bits bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return bits;
  }
  static void store(std::byte* to, Bits bits) { __builtin_memcpy(to, &bits, sizeof bits); }
  // Past the caches if the machine can, to a multiple of the register's size.
  static void stream(std::byte* to, Bits bits) { store(to, bits); }

  // The first `bytes` (below kBytes) only; the rest reads as zero.
  static Bits loadSome(const std::byte* from, size_t bytes) {
    Bits bits{};
    __builtin_memcpy(&bits, from, bytes);
    return bits;
  }
  static void storeSome(std::byte* to, Bits bits, size_t bytes) { __builtin_memcpy(to, &bits, bytes); }

  // For lanes below 2^31, because SSE2 and AVX2 compare signed integers only.
  static Of<int32_t> above(Bits a, Bits b) {
    return __builtin_bit_cast(Of<int32_t>, a) > __builtin_bit_cast(Of<int32_t>, b);
  }

  static Bits smaller(Bits a, Bits b) { return above(b, a) ? a : b; }
  static Bits larger(Bits a, Bits b) { return above(a, b) ? a : b; }

  // The hardware's minimum of numbers: a if a < b, else b.
  static Of<float> less(Of<float> a, Of<float> b) { return a < b ? a : b; }
  static Of<double> less(Of<double> a, Of<double> b) { return a < b ? a : b; }
};

template <int kIndex>
struct Index {
  static constexpr int value = kIndex;
};

// body(Index<0>{}), body(Index<1>{}), ... kCount times. Not a loop over an array of vectors: g++ 12 unrolls loops after it has
// decided which arrays stay in registers, and stores the others in every iteration.
template <int kCount, int kFirst = 0, class Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  if constexpr (kFirst < kCount) {
    body(Index<kFirst>{});
    unrolled<kCount, kFirst + 1>(body);
  }
}

// The same bits, as another type of vector.
template <class To, class From>
To as(From from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace
}  // namespace horing
