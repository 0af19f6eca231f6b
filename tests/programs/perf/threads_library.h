#pragma once
// A horing library of threads in one process, right by construction and slow, to hold programs against. What
// goes wrong is chosen by the test.
#include <atomic>

namespace horing::testing {

struct Faults {
  std::atomic<bool> corrupt{
      false};  // one element of rank 0's result, in collectives of more than 64 elements
  std::atomic<bool> fail_collectives{false};  // those of more than 64 elements return horingRemoteError
};
Faults& faults();

}  // namespace horing::testing
