#pragma once
// Lets a rank sleep until a peer has posted something for it.
//
// A flag in memory shared with the peers, and a file descriptor on which the rank blocks and to which peers write: an eventfd between
// threads, a FIFO between processes. No wake-up is lost, by Dekker's argument: the waiter sets the flag, fences and checks its queues; the
// poster publishes, fences and checks the flag. The fences are totally ordered, so at least one side sees the other's write. A spurious
// wake-up is possible and harmless.
#include <atomic>
#include <cstdint>

namespace horing {

// In memory shared with the peers, on a separate cache line.
struct DoorbellFlag {
  // 1 while the owner sleeps or is about to. Set by the owner, cleared by the owner or by the peer that wakes
  // it.
  alignas(64) std::atomic<uint32_t> sleeping;
};
static_assert(sizeof(DoorbellFlag) == 64);

// The owner's side. A value: flag and descriptor are borrowed and must outlive it. One thread.
class Doorbell {
 public:
  Doorbell(DoorbellFlag* flag, int fd) : flag_(flag), fd_(fd) {}

  // From here on peers ring. Then check the queues once more, and only then block on fd().
  void beginWait();
  // Stops peers from ringing, and drains pending wake-ups.
  void endWait();
  // Becomes readable when rung.
  int fd() const { return fd_; }

 private:
  DoorbellFlag* flag_;
  int fd_;
};

// A peer's side. A value, as above. The descriptor must never block.
class DoorbellButton {
 public:
  DoorbellButton() = default;
  DoorbellButton(DoorbellFlag* flag, int fd) : flag_(flag), fd_(fd) {}

  // Wakes the owner if it sleeps. Call it after publishing. Costs one full fence when the owner is awake.
  void press() {
    // Pairs with the fence in Doorbell::beginWait().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (flag_->sleeping.load(std::memory_order_relaxed) != 0) wake();
  }

 private:
  void wake();

  DoorbellFlag* flag_ = nullptr;
  int fd_ = -1;
};

}  // namespace horing
