#pragma once
// Which ranks an operation waits for at a moment, and for what: cheap enough to be asked while it runs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace horing {

struct PeerWait {
  int32_t peer = -1;
  bool for_room = false;  // for the peer to take data, also what is under way; else for its data
  bool operator==(const PeerWait&) const = default;
};

// Each once; those beyond kMost are left out.
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
