#include "schedule/shares.h"

#include <algorithm>
#include <numeric>

namespace horing {

Shares::Shares(std::vector<int32_t> parts) {
  auto made = std::make_shared<Cut>();
  made->at = {0};
  for (const int32_t part : parts) made->at.push_back(made->at.back() + part);
  const auto [least, largest] = std::ranges::minmax(parts);
  made->least = least;
  made->largest = largest;
  made->parts = std::move(parts);
  cut_ = std::move(made);
}

bool Shares::areValid(std::span<const int32_t> parts) {
  int64_t sum = 0;
  for (const int32_t part : parts) {
    if (part < 0) return false;
    sum += part;
  }
  return sum == kWhole;
}

size_t Shares::largestRow(size_t count, size_t alignment) const {
  return std::min(count, alignedShare(count, static_cast<size_t>(cut_->largest), kWhole, 1) + 1 + alignment);
}

std::strong_ordering Shares::operator<=>(const Shares& other) const {
  const std::span<const int32_t> mine = parts(), theirs = other.parts();
  return std::lexicographical_compare_three_way(mine.begin(), mine.end(), theirs.begin(), theirs.end());
}

}  // namespace horing
