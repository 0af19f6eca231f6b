#pragma once
#include <cstdint>

namespace horing {

// `groups` groups of `members` ranks each. Position = group * members + local index.
struct Shape {
  int32_t groups = 1;
  int32_t members = 1;
  int32_t ranks() const { return groups * members; }
};

}  // namespace horing
