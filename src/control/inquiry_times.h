#pragma once
// Times of the rendezvous' inquiries to all ranks (control/call_ledger.h, control/wait_graph.h).
#include <cstdint>

namespace horing {

// Answers need one wake-up of a thread, even on a busy machine.
inline constexpr int64_t kAnswersNs = 500'000'000;
// After a mismatch, reports of more callers may still arrive for this long, so that the majority is known.
inline constexpr int64_t kMoreCallersNs = 1'000'000'000;
// How long a rank waits for a verdict that the rendezvous owes it.
inline constexpr int64_t kVerdictMs = (kAnswersNs + kMoreCallersNs) / 1'000'000 + 500;
// The shortest time between two inquiries.
inline constexpr int64_t kAskAgainNs = 150'000'000;

}  // namespace horing
