#pragma once
// How long a rank has waited for each other rank since its communicator was made.
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/peer_waits.h"

namespace horing {

// add(): whoever drives the communicator, one thread at a time. ns(): any thread. 16 bytes for each rank.
class WaitTimes {
 public:
  explicit WaitTimes(int ranks) : times_ns_(2 * static_cast<size_t>(ranks)) {}

  int ranks() const { return static_cast<int>(times_ns_.size() / 2); }
  // Adds the whole time to each of the ranks, if the rank waits for several at once.
  void add(const PeerWaits& waits, int64_t ns) {
    for (const PeerWait& wait : waits.all())
      if (wait.peer < ranks()) {
        std::atomic<int64_t>& time = times_ns_[placeOf(wait)];
        time.store(time.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
      }
  }
  int64_t ns(PeerWait wait) const { return times_ns_[placeOf(wait)].load(std::memory_order_relaxed); }

 private:
  static size_t placeOf(PeerWait wait) {
    return 2 * static_cast<size_t>(wait.peer) + static_cast<size_t>(wait.for_room);
  }

  std::vector<std::atomic<int64_t>> times_ns_;
};

}  // namespace horing
