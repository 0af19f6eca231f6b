#pragma once
// How long the rendezvous waits where it asks all ranks something (control/call_ledger.h, control/wait_graph.h).
#include <cstdint>

namespace horing {

// Answers are a thread's wake-up away, even on a machine that is busy.
inline constexpr int64_t kAnswersNs = 500'000'000;
// No more often.
inline constexpr int64_t kAskAgainNs = 150'000'000;

}  // namespace horing
