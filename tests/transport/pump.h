#pragma once
// Transports driven by the test's own thread.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <thread>

#include "base/clock.h"
#include "transport/transport.h"

namespace horing::testing {

inline constexpr int64_t kPatienceMs = 30'000;  // a test that waits longer than this has hung

// Calls progress() of all that there are until `done`; false when patience is at its end.
template <typename Transports>
bool pumpUntil(const Transports& transports, const std::function<bool()>& done) {
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kPatienceMs);
  for (int round = 1; !done(); ++round) {
    for (const auto& transport : transports) {
      if (transport != nullptr) [[maybe_unused]]
        const Status status = transport->progress();
    }
    // Not each time: on a busy machine that costs many milliseconds, and some things are counted in rounds.
    if (round % 64 == 0) std::this_thread::yield();
    if (deadline.passed()) return false;
  }
  return true;
}
inline bool pumpUntil(std::initializer_list<Transport*> transports, const std::function<bool()>& done) {
  return pumpUntil<std::initializer_list<Transport*>>(transports, done);
}

}  // namespace horing::testing
