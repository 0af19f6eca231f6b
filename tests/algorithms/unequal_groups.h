#pragma once
// Shapes whose groups differ in size.
#include <cstdint>
#include <string>
#include <vector>

namespace horing {

using GroupSizes = std::vector<int32_t>;

// Every multiset of 2 to `most_groups` groups of up to `most_members` members that are not all equal, the largest first.
inline std::vector<GroupSizes> unequalGroups(size_t most_groups, int32_t most_members) {
  std::vector<GroupSizes> shapes;
  const auto add = [&](auto&& self, GroupSizes sizes, int32_t most) -> void {
    if (!sizes.empty() && sizes.front() != sizes.back()) shapes.push_back(sizes);
    if (sizes.size() == most_groups) return;
    for (int32_t size = 1; size <= most; ++size) {
      sizes.push_back(size);
      self(self, sizes, size);
      sizes.pop_back();
    }
  };
  add(add, {}, most_members);
  return shapes;
}

inline std::string textOf(const GroupSizes& sizes) {
  std::string text;
  for (const int32_t size : sizes) text += (text.empty() ? "" : "+") + std::to_string(size);
  return text;
}

}  // namespace horing
