#pragma once
// How a rank spends the time in which it can do nothing: it spins, then yields the core, then blocks.
//
// Ranks often outnumber cores. Spinning is right only while every rank of the node has a core of its own;
// yielding hands the core to the rank that is being waited for; blocking costs a wake-up (20 to 40 us where
// that was measured), so it comes last, and it is what keeps an idle rank from burning a core.
#include <chrono>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace horing {

struct WaitPolicy {
  int64_t spin_ns = 0;
  int64_t yield_ns = 0;
};

// One thread at a time. No allocation after create().
class Waiter {
 public:
  // `fds` become readable when waiting may be over; -1 entries are passed over. They must outlive the waiter.
  static Result<Waiter> create(WaitPolicy policy, std::span<const int> fds);

  // What idle() wants next.
  enum class Step { kAgain, kBlock };
  // There was progress: the next wait starts with spinning.
  void progressed() {
    idle_since_ns_ = 0;
    yielded_ns_ = 0;
    looks_ = 0;
  }
  // To be asked before idle() when nothing could be done: whether to look again at once. What a peer on a core of its own is
  // about to send is here before a clock has been read and a pause made.
  bool looksAgain() { return policy_.spin_ns > 0 && looks_++ < kQuickLooks; }
  // Nothing could be done at `now_ns`. Spins or yields and returns kAgain, or asks for block().
  Step idle(int64_t now_ns);
  const WaitPolicy& policy() const { return policy_; }
  void setPolicy(const WaitPolicy& policy) { policy_ = policy; }
  // How long it has been idle since there was progress; 0 while there is.
  int64_t idleNs(int64_t now_ns) const { return idle_since_ns_ == 0 ? 0 : now_ns - idle_since_ns_; }
  // From here on this fd wakes it, too, until forget().
  Status watch(int fd);
  // From here on this fd wakes nobody.
  void forget(int fd);
  // Sleeps until one of the fds is readable, at most so long.
  void block(std::chrono::microseconds timeout);

 private:
  // A yield took so long that another program must have had the core.
  void noteForeignTurn(int64_t now_ns);

  Waiter(WaitPolicy policy, Fd epoll) : policy_(policy), epoll_(std::move(epoll)) {}
  WaitPolicy policy_;
  Fd epoll_;
  static constexpr uint32_t kQuickLooks = 32;  // about half a microsecond
  uint32_t looks_ = 0;                         // since there was progress
  int64_t idle_since_ns_ = 0;
  int64_t yielded_ns_ = 0;  // when the last call yielded; 0: it did not
  int64_t no_yield_until_ns_ = 0;
  int64_t no_yield_ns_ = 0;  // how long the last time
};

}  // namespace horing
