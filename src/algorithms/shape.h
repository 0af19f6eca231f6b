#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/rails.h"
#include "schedule/shares.h"

namespace horing {

// `groups` groups of `members` ranks each. Position = group * members + local index.
//
// If groups differ in size, `rails` has the sizes, `members` is the largest, and positions number the members group by group.
struct Shape {
  int32_t groups = 1;
  int32_t members = 1;
  Rails rails{};
  Shares shares{};  // of the vector that each group reduces, for algorithms that take them; empty: equal ones
  // For trees: the groups from the one with the fastest links on; empty: all are equal.
  std::vector<int32_t> by_speed{};
  int32_t ranks() const { return rails ? rails.ranks() : groups * members; }
  int32_t sizeOf(int32_t group) const { return rails ? rails.sizeOf(group) : members; }
  // The position of the group's member 0.
  int32_t firstOf(int32_t group) const { return rails ? rails.firstOf(group) : group * members; }
  int32_t groupOf(int32_t position) const { return rails ? rails.groupOf(position) : position / members; }

  static Shape of(std::span<const int32_t> group_sizes) {
    const auto [least, most] = std::minmax_element(group_sizes.begin(), group_sizes.end());
    Shape shape{static_cast<int32_t>(group_sizes.size()), *most};
    if (*least != *most) shape.rails = Rails({group_sizes.begin(), group_sizes.end()});
    return shape;
  }
};

}  // namespace horing
