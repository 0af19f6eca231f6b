#pragma once
// A horing library of threads in one process, right by construction and slow, to hold programs against. What
// goes wrong is chosen by the test.
#include <atomic>

namespace horing::testing {

struct Faults {
  // Each of these concerns results of more than 2 KiB only, so that ranks can still agree.
  std::atomic<bool> corrupt{false};           // one element of each result
  std::atomic<bool> fail_collectives{false};  // they return horingRemoteError
  std::atomic<bool> other_root{false};        // the next rank plays the root
  std::atomic<bool> touch_others{false};      // ranks that should receive nothing receive, too
  std::atomic<bool> shift{false};             // results begin 16 bytes late
};
Faults& faults();

}  // namespace horing::testing
