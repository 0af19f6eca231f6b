#pragma once
// The ranks that an operation waits for at a moment, and what for. Cheap enough to collect while the operation runs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace horing {

struct PeerWait {
  int32_t peer = -1;
  // Waits until the peer takes data, data in flight included; false: waits for the peer's data.
  bool for_room = false;
  bool operator==(const PeerWait&) const = default;
};

// Without duplicates; waits beyond kMost are dropped.
class PeerWaits {
 public:
  static constexpr size_t kMost = 32;

  void add(PeerWait wait) {
    if (wait.peer < 0 || size_ == kMost || std::ranges::find(all(), wait) != all().end()) return;
    waits_[size_++] = wait;
  }
  std::span<const PeerWait> all() const { return {waits_.data(), size_}; }

 private:
  std::array<PeerWait, kMost> waits_;
  size_t size_ = 0;
};

}  // namespace horing
