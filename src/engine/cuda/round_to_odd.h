#pragma once
// The first of two roundings, from float64 to 16 bits: rounding twice to nearest could end on the wrong side of a tie.
#include "engine/cuda/device.h"

namespace horing::cuda {

// The nearer float32 neighbour whose last bit is 1, unless the value is a float32.
HORING_DEVICE inline float roundToOdd(double value) {
  const auto near = static_cast<float>(value);
  const auto bits = bitsAs<uint32_t>(near);
  const bool is_special = (bits & 0x7f800000u) == 0x7f800000u;
  if (static_cast<double>(near) == value || is_special || (bits & 1u)) return near;
  const double magnitude = value < 0 ? -value : value;
  const bool is_too_large = static_cast<double>(near < 0 ? -near : near) > magnitude;
  return bitsAs<float>(is_too_large ? bits - 1 : bits + 1);
}

}  // namespace horing::cuda
