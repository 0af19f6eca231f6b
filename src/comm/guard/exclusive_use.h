#pragma once
// Exclusive use of a communicator: one thread at a time is in a call; other threads only check its state.
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace horing {

// kLook: a short check of the state, which may drive transports. kCall: a call. kAway: a call that waits for the rendezvous.
enum class Use : uint8_t { kNone, kLook, kCall, kAway };

// Takes the communicator for one thread. Fails if a call is inside. Waits for a thread that holds it as kLook, which any thread may do at
// any time.
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
  // A part of the use that this thread has.
  struct Within {};
  ExclusiveUse(std::atomic<Use>& use, Within) : use_(use), owns_(true), releases_(false) {}
  ~ExclusiveUse() {
    if (owns_ && releases_) use_.store(Use::kNone, std::memory_order_release);
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  bool owns() const { return owns_; }
  // Never releases it.
  void keepForever() { owns_ = false; }

 private:
  std::atomic<Use>& use_;
  bool owns_ = false, releases_ = true;
};

// The part of a call that waits for the rendezvous. Meanwhile other threads may take it as kLook, and so drive the messages that
// peers need before they reach the rendezvous.
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
