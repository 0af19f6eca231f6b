#pragma once
// How a rank waits: it spins, then yields the core, then blocks.
//
// Ranks often outnumber cores. Spinning is right only while every rank of the node has its own core; yielding gives the core to the
// rank that is waited for; blocking costs a wake-up (20 to 40 us where that was measured), so it comes last, and keeps an idle rank
// from using a core.
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace horing {

struct WaitPolicy {
  int64_t spin_ns = 0;
  int64_t yield_ns = 0;
};

// One thread at a time. It has no descriptor of its own: it watches few, and a process may have hundreds of waiters.
class Waiter {
 public:
  explicit Waiter(WaitPolicy policy) : policy_(policy) {}

  // What idle() wants next.
  enum class Step { kAgain, kBlock };
  // There was progress: the next wait starts with spinning.
  void progressed() {
    idle_since_ns_ = 0;
    yielded_ns_ = 0;
    looks_ = 0;
  }
  // Call this before idle() when there was no progress: whether to poll again at once. A peer on its own core sends before a clock
  // is read and a pause is over.
  bool looksAgain() { return policy_.spin_ns > 0 && looks_++ < kQuickLooks; }
  // Nothing could be done at `now_ns`. Spins or yields and returns kAgain, or asks for block().
  Step idle(int64_t now_ns);
  const WaitPolicy& policy() const { return policy_; }
  void setPolicy(const WaitPolicy& policy) { policy_ = policy; }
  // How long it has been idle since there was progress; 0 while there is.
  int64_t idleNs(int64_t now_ns) const { return idle_since_ns_ == 0 ? 0 : now_ns - idle_since_ns_; }
  // From here on this fd wakes it when it is readable; -1: none. It must outlive the waiter, or be replaced by another. Returns its place.
  size_t watch(int fd);
  void replace(size_t place, int fd) { watched_[place].fd = fd; }
  // Sleeps until one of the fds is readable, at most so long.
  void block(std::chrono::microseconds timeout);

 private:
  // A yield took so long that another program must have had the core.
  void noteForeignTurn(int64_t now_ns);

  WaitPolicy policy_;
  std::vector<pollfd> watched_;
  static constexpr uint32_t kQuickLooks = 32;  // about half a microsecond
  uint32_t looks_ = 0;                         // since there was progress
  int64_t idle_since_ns_ = 0;
  int64_t yielded_ns_ = 0;  // when the last call yielded; 0: it did not
  int64_t no_yield_until_ns_ = 0;
  int64_t no_yield_ns_ = 0;  // how long the last time
};

}  // namespace horing
