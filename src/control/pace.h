#pragma once
// The pace of a rank: its calls and waits in an interval of about a second. A value that is sent to the rendezvous.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/peer_waits.h"
#include "control/call_log.h"

namespace horing {

inline constexpr uint32_t kMaxPaceWaits = 8;
inline constexpr int64_t kPaceNs = 1'000'000'000;

struct PaceWait {
  PeerWait wait;
  uint32_t us = 0;  // at most the interval
  bool operator==(const PaceWait&) const = default;
};

// `calls`, `inside_us`: of collectives in which each rank waits for all others. In such a call the rank that comes last spends the least
// time.
struct Pace {
  uint32_t interval_us = 0;
  uint32_t calls = 0;
  uint32_t inside_us = 0;
  std::vector<PaceWait> waits;  // the longest
  uint64_t bytes = 0;           // of all collectives that ended
  std::string now{};            // the collective in progress, as text; empty: none
};

// "20 calls/s, 5.1 ms inside each, 84 MB/s; in all_reduce #123 (10 x int8, sum); waits 81 % of the time for data from rank 3"
std::string paceText(const Pace& pace);

// Measures the pace of one rank. Used by one thread.
class PaceMeter {
 public:
  // The pace since the last take(); nothing at the first call, or if no call ended or goes on and the rank did not wait.
  std::optional<Pace> take(const CallLog& calls, int64_t now_ns);

 private:
  std::vector<PaceWait> longestWaits(const WaitTimes& times, uint32_t interval_us);

  int64_t taken_ns_ = 0;
  CallTotals totals_;
  uint64_t bytes_ = 0;
  std::vector<int64_t> waited_ns_;  // two for each rank
};

}  // namespace horing
