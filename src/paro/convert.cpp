#include "paro/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/types.h"
#include "engine/cuda/round_to_odd.h"

namespace horing::paro {

namespace {

struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

float widen(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// 2^112 moves the exponent from float16's bias to float32's, which also makes normal numbers of subnormal ones.
float widen(Float16 value) {
  const uint32_t magnitude = value.bits & 0x7fffu;
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}
double widen(double value) {
  return value;
}
float widen(float value) {
  return value;
}

void narrow(float value, Bfloat16& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<uint16_t>(std::isnan(value) ? 0x7fc0u : rounded);
}

void narrow(float value, Float16& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    to.bits = 0x7e00u;
    return;
  }
  if (magnitude >= 0x47800000u) {  // 65536
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the results are multiples of 2^-24, float32's step at 0.5: adding that rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  } else {
    const uint32_t rebiased = magnitude - (112u << 23);
    half = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;  // may carry into infinity, as it should
  }
  to.bits = static_cast<uint16_t>(half | sign);
}
void narrow(float value, float& to) {
  to = value;
}
void narrow(float value, double& to) {
  to = value;
}
void narrow(double value, double& to) {
  to = value;
}
void narrow(double value, float& to) {
  to = static_cast<float>(value);
}
// In which the elements are computed.
template <typename T>
using Wide = decltype(widen(T{}));

// sum += added
template <typename T>
void add(T& sum, Wide<T> added) {
  narrow(widen(sum) + added, sum);
}
// NaN needs no special case: the lower half of a NaN made of two bfloat16 is 0, so that rounding does not carry.
void add(Bfloat16& sum, float added) {
  const uint32_t bits = std::bit_cast<uint32_t>(widen(sum) + added);
  sum.bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void narrow(double value, Bfloat16& to) {
  narrow(cuda::roundToOdd(value), to);
}
void narrow(double value, Float16& to) {
  narrow(cuda::roundToOdd(value), to);
}

bool isOfParameters(horingDataType_t type) {
  return type == horingFloat16 || type == horingBfloat16 || type == horingFloat32 || type == horingFloat64;
}

// Calls body(T{}) with the C++ type of the elements.
template <typename Body>
auto withType(horingDataType_t type, Body body) {
  switch (type) {
    case horingFloat16:
      return body(Float16{});
    case horingBfloat16:
      return body(Bfloat16{});
    case horingFloat64:
      return body(double{});
    default:
      return body(float{});
  }
}

template <typename From, typename To>
void convertAll(const From* from, To* to, size_t count) {
  for (size_t i = 0; i < count; ++i) narrow(widen(from[i]), to[i]);
}

}  // namespace

size_t bytesOf(horingDataType_t type) {
  return isOfParameters(type) ? dataTypeBytes(static_cast<DataType>(type)) : 0;
}

const char* nameOf(horingDataType_t type) {
  return isOfParameters(type) ? dataTypeName(static_cast<DataType>(type)) : "another type";
}

horingDataType_t stateTypeOf(horingDataType_t wire) {
  return wire == horingFloat64 ? horingFloat64 : horingFloat32;
}

void convert(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type, size_t count) {
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, count * bytesOf(to_type));
    return;
  }
  withType(from_type, [&](auto from_tag) {
    withType(to_type, [&](auto to_tag) {
      convertAll(static_cast<const decltype(from_tag)*>(from), static_cast<decltype(to_tag)*>(to), count);
    });
  });
}

void accumulate(void* sum, const void* added, horingDataType_t type, size_t count, double factor) {
  withType(type, [&](auto tag) {
    using T = decltype(tag);
    auto* const to = static_cast<T*>(sum);
    const auto* const from = static_cast<const T*>(added);
    if (factor == 1) {
      for (size_t i = 0; i < count; ++i) add(to[i], widen(from[i]));
      return;
    }
    const auto by = static_cast<Wide<T>>(factor);
    for (size_t i = 0; i < count; ++i) add(to[i], by * widen(from[i]));
  });
}

void scale(void* values, double factor, horingDataType_t type, size_t count) {
  withType(type, [&](auto tag) {
    using T = decltype(tag);
    auto* const all = static_cast<T*>(values);
    const auto by = static_cast<Wide<T>>(factor);
    for (size_t i = 0; i < count; ++i) narrow(by * widen(all[i]), all[i]);
  });
}

double sumOfSquares(const void* values, horingDataType_t type, size_t count) {
  return withType(type, [&](auto tag) {
    const auto* const all = static_cast<const decltype(tag)*>(values);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const double value = widen(all[i]);
      sum += value * value;
    }
    return sum;
  });
}

bool allFinite(const void* values, horingDataType_t type, size_t count) {
  return withType(type, [&](auto tag) {
    const auto* const all = static_cast<const decltype(tag)*>(values);
    bool finite = true;
    for (size_t i = 0; i < count; ++i) finite &= static_cast<bool>(std::isfinite(widen(all[i])));
    return finite;
  });
}

}  // namespace horing::paro
