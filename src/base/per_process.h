#pragma once
// An object that exists once in a process; a forked child makes its own.
#include <atomic>
#include <memory>

#include "base/fork_guard.h"

namespace horing {

// One T for this process, made when it is first asked for and never destroyed. A child does not touch its parent's T, whose locks may be
// held by threads that do not exist in the child.
template <typename T>
T& perProcess() {
  struct Made {
    ForkGuard fork_guard;
    T value;
    Made* of_parent = nullptr;  // keeps the parent's object reachable for leak checkers
  };
  static std::atomic<Made*> current{nullptr};
  Made* known = current.load(std::memory_order_acquire);
  while (!known || known->fork_guard.isForkedChild()) {
    auto made = std::make_unique<Made>();
    made->of_parent = known;
    if (current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
      return made.release()->value;
  }
  return known->value;
}

}  // namespace horing
