#pragma once
// A vector whose rows differ in size: in proportion to the rates of groups, for instance.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/quotient.h"

namespace horing {

// A value, cheap to copy; empty if all rows have one size.
class Shares {
 public:
  static constexpr int32_t kWhole = 1 << 16;

  Shares() = default;
  // By row, in 1 / kWhole of the vector. They must be valid.
  explicit Shares(std::vector<int32_t> parts);
  // None is negative, and the sum is kWhole.
  static bool areValid(std::span<const int32_t> parts);

  explicit operator bool() const { return cut_ != nullptr; }
  // Whether a row has nothing.
  bool anyIsNone() const { return cut_ && cut_->least == 0; }
  // Whether a row has less than an eighth of the largest.
  bool anyIsSmall() const { return cut_ && cut_->least * 8 < cut_->largest; }
  std::span<const int32_t> parts() const { return cut_ ? cut_->parts : std::span<const int32_t>(); }

  // The first element of a row, or after the last row the end: a multiple of `alignment`, or `count`.
  size_t beginOf(int32_t row, size_t count, size_t alignment) const {
    return alignedShare(count, static_cast<size_t>(cut_->at[static_cast<size_t>(row)]), kWhole, alignment);
  }
  // An upper bound of the elements of the largest row.
  size_t largestRow(size_t count, size_t alignment) const;

  bool operator==(const Shares& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Shares& other) const;

 private:
  struct Cut {
    std::vector<int32_t> parts;
    std::vector<int32_t> at;         // begins of rows; one more entry: kWhole
    int32_t least = 0, largest = 0;  // part
  };
  std::shared_ptr<const Cut> cut_;
};

}  // namespace horing
