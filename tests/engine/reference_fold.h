#pragma once
// The reference for folding one element: one operand after the other, slow and simple.
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "reference_formats.h"

namespace horing::test {

inline constexpr uint64_t kNan64 = 0x7ff8000000000000;
inline constexpr uint32_t kNan32 = 0x7fc00000;

// Operands of one element, as bit patterns.
struct ReferenceOperands {
  std::vector<uint64_t> bits;
  std::vector<char> is_input;
  double number = 1;     // the factor of premulsum, of floating point
  uint64_t integer = 1;  // and of integers
  int ranks = 1;
  bool is_final = false;
};

class ReferenceFold {
 public:
  ReferenceFold(DataType type, RedOp op) : type_(type), op_(op) {
    if (isFloatingPoint(type) && dataTypeBytes(type) < 4)
      narrow_ = std::make_unique<ReferenceNarrowing>(type);
  }

  uint64_t operator()(const ReferenceOperands& operands) const {
    if (operands.bits.size() == 1 && !changesSingle(operands)) return operands.bits[0];
    if (!isFloatingPoint(type_)) return foldIntegers(operands);
    if (op_ == RedOp::kMin || op_ == RedOp::kMax) return pickFloat(operands);
    if (type_ == DataType::kFloat64) {
      const double value = foldFloats<double>(operands);
      return std::isnan(value) ? kNan64 : std::bit_cast<uint64_t>(value);
    }
    const float value = foldFloats<float>(operands);
    if (type_ != DataType::kFloat32) return (*narrow_)(static_cast<double>(value));
    return std::isnan(value) ? kNan32 : std::bit_cast<uint32_t>(value);
  }

 private:
  bool changesSingle(const ReferenceOperands& operands) const {
    const bool scaled = operands.is_input[0] != 0;
    if (op_ == RedOp::kPreMulSum)
      return scaled && (isFloatingPoint(type_) ? operands.number != 1 : truncated(operands.integer) != 1);
    return op_ == RedOp::kAvg && operands.ranks != 1 && (isFloatingPoint(type_) ? scaled : operands.is_final);
  }
  bool isSigned() const {
    return type_ == DataType::kInt8 || type_ == DataType::kInt32 || type_ == DataType::kInt64;
  }
  uint64_t truncated(uint64_t value) const {
    const size_t bits = dataTypeBytes(type_) * 8;
    return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
  }
  __int128 integer(uint64_t bits) const {
    const __int128 modulus = static_cast<__int128>(1) << (dataTypeBytes(type_) * 8);
    const __int128 value = bits;
    return isSigned() && value >= modulus / 2 ? value - modulus : value;
  }

  uint64_t foldIntegers(const ReferenceOperands& operands) const {
    const auto operand = [&](size_t s) {
      const bool scaled = op_ == RedOp::kPreMulSum && operands.is_input[s];
      return scaled ? truncated(operands.bits[s] * operands.integer) : operands.bits[s];
    };
    uint64_t value = operand(0);
    for (size_t s = 1; s < operands.bits.size(); ++s) {
      const uint64_t other = operand(s);
      switch (op_) {
        case RedOp::kProd:
          value = truncated(value * other);
          break;
        case RedOp::kMin:
          value = integer(other) < integer(value) ? other : value;
          break;
        case RedOp::kMax:
          value = integer(other) > integer(value) ? other : value;
          break;
        case RedOp::kBitAnd:
          value &= other;
          break;
        case RedOp::kBitOr:
          value |= other;
          break;
        case RedOp::kBitXor:
          value ^= other;
          break;
        default:
          value = truncated(value + other);
          break;
      }
    }
    if (op_ != RedOp::kAvg || !operands.is_final) return value;
    return truncated(static_cast<uint64_t>(integer(value) / operands.ranks));
  }

  double number(uint64_t bits) const {
    if (type_ == DataType::kFloat64) return std::bit_cast<double>(bits);
    if (type_ == DataType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    return referenceWiden(narrow_->format(), static_cast<uint32_t>(bits));
  }

  template <class F>
  F foldFloats(const ReferenceOperands& operands) const {
    F value = 0;
    for (size_t s = 0; s < operands.bits.size(); ++s) {
      F operand = static_cast<F>(number(operands.bits[s]));
      if (op_ == RedOp::kAvg && operands.is_input[s]) operand *= F{1} / static_cast<F>(operands.ranks);
      if (op_ == RedOp::kPreMulSum && operands.is_input[s]) operand *= static_cast<F>(operands.number);
      if (s == 0) {
        value = operand;
      } else {
        value = op_ == RedOp::kProd ? value * operand : value + operand;
      }
    }
    return value;
  }

  uint64_t pickFloat(const ReferenceOperands& operands) const {
    uint64_t best = operands.bits[0];
    for (uint64_t bits : operands.bits) {
      const double a = number(bits);
      const double b = number(best);
      if (std::isnan(a)) return quietNan();
      const bool below = a < b || (a == b && std::signbit(a) && !std::signbit(b));
      const bool above = a > b || (a == b && !std::signbit(a) && std::signbit(b));
      if (op_ == RedOp::kMin ? below : above) best = bits;
    }
    return best;
  }
  uint64_t quietNan() const {
    if (type_ == DataType::kFloat64) return kNan64;
    return type_ == DataType::kFloat32 ? kNan32 : narrow_->format().nan;
  }

  DataType type_;
  RedOp op_;
  std::unique_ptr<ReferenceNarrowing> narrow_;
};

}  // namespace horing::test
