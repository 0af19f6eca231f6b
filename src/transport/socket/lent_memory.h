#pragma once
// The memory that callers have lent (RegionAccess::lend) and that this process can read and write.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "transport/lent_memory.h"

namespace horing::tcp {

class LentMemory {
 public:
  void lend(const Region& region) {
    if (region.ofGpu()) return;
    if (const auto held = find(region.id); held != held_.end()) {
      ++held->times;
    } else {
      held_.push_back({region, 1});
    }
  }
  // True: no caller lends it any more.
  bool takeBack(const Region& region) {
    if (region.ofGpu()) return false;
    const auto held = find(region.id);
    HORING_CHECK(held != held_.end());
    if (--held->times > 0) return false;
    held_.erase(held);
    return true;
  }
  template <typename Visit>
  void forEach(const Visit& visit) const {
    for (const Held& held : held_) visit(held.region);
  }
  bool holds(const std::byte* memory, size_t bytes) const {
    return std::any_of(held_.begin(), held_.end(),
                       [&](const Held& held) { return held.region.contains(memory, bytes); });
  }

 private:
  struct Held {
    Region region;
    int times;
  };
  std::vector<Held>::iterator find(uint64_t id) {
    return std::find_if(held_.begin(), held_.end(), [&](const Held& held) { return held.region.id == id; });
  }

  std::vector<Held> held_;
};

}  // namespace horing::tcp
