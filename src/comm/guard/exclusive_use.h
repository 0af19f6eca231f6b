#pragma once
// Who is inside a communicator: one thread at a time may be in a call; others only look.
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace horing {

// A call that must be alone, which may be away waiting for the rendezvous, or a look at the state, which may drive transports.
enum class Use : uint8_t { kNone, kLook, kCall, kAway };

// Takes the communicator for one thread. Who finds a call inside does not get it; who only looks, and may come from any thread at
// any time, is waited for.
class ExclusiveUse {
 public:
  ExclusiveUse(std::atomic<Use>& use, Use wanted) : use_(use) {
    Use found = Use::kNone;
    // acquire: pairs with the release in the destructor.
    while (!use_.compare_exchange_weak(found, wanted, std::memory_order_acquire)) {
      if (found == Use::kCall || found == Use::kAway) return;
      if (found == Use::kLook) ::sched_yield();
      found = Use::kNone;
    }
    owns_ = true;
  }
  ~ExclusiveUse() {
    if (owns_) use_.store(Use::kNone, std::memory_order_release);
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  bool owns() const { return owns_; }
  // For good.
  void keep() { owns_ = false; }

 private:
  std::atomic<Use>& use_;
  bool owns_ = false;
};

// In a call: while it waits for the rendezvous, which others may come to only when they have what this rank owes them.
class Away {
 public:
  explicit Away(std::atomic<Use>& use) : use_(use) { use_.store(Use::kAway, std::memory_order_release); }
  ~Away() {
    Use found = Use::kAway;
    while (!use_.compare_exchange_weak(found, Use::kCall, std::memory_order_acquire)) {
      ::sched_yield();
      found = Use::kAway;
    }
  }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  std::atomic<Use>& use_;
};

}  // namespace horing
