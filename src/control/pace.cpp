#include "control/pace.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace horing {

namespace {

uint64_t bytesOfAll(const FlightRecorder& recorder) {
  uint64_t bytes = 0;
  for (int number = 0; number < kCollectives; ++number)
    bytes += recorder.totals(static_cast<Collective>(number)).bytes;
  return bytes;
}

// Of the collectives in which each rank waits for all others. In other collectives a root, or a rank that only sends, may leave early.
CallTotals totalsOfAll(const FlightRecorder& recorder) {
  CallTotals sum;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
    const CallTotals one = recorder.totals(collective);
    sum.calls += one.calls;
    sum.inside_ns += one.inside_ns;
  }
  return sum;
}

template <typename Number>
uint32_t bounded(Number value) {
  return static_cast<uint32_t>(std::clamp<Number>(value, 0, UINT32_MAX));
}

}  // namespace

std::string paceText(const Pace& pace) {
  const double seconds = std::max(pace.interval_us, 1u) / 1e6;
  std::string text = formatString("%.3g calls/s", pace.calls / seconds);
  if (pace.calls > 0) text += formatString(", %.3g ms inside each", pace.inside_us / 1e3 / pace.calls);
  text += formatString(", %.3g MB/s", static_cast<double>(pace.bytes) / 1e6 / seconds);
  if (!pace.now.empty()) text += "; in " + pace.now;
  const char* separator = "; waits ";
  for (const PaceWait& each : pace.waits) {
    const double percent = each.us / 1e4 / seconds;
    if (percent < 1) continue;
    text += formatString("%s%.0f %% of the time %s rank %d", std::exchange(separator, ", "), percent,
                         each.wait.for_room ? "to send to" : "for data from", each.wait.peer);
  }
  return text;
}

std::optional<Pace> PaceMeter::take(const CallLog& calls, int64_t now_ns) {
  const CallTotals now = totalsOfAll(calls.recorder());
  const CallTotals before = std::exchange(totals_, now);
  const uint32_t interval_us = bounded((now_ns - taken_ns_) / 1000);
  Pace pace{.interval_us = interval_us,
            .calls = bounded(now.calls - before.calls),
            .inside_us = bounded((now.inside_ns - before.inside_ns) / 1000),
            .waits = longestWaits(calls.waitTimes(), interval_us),
            .bytes = bytesOfAll(calls.recorder()),
            .now = calls.nowText()};
  pace.bytes -= std::exchange(bytes_, pace.bytes);
  const bool is_first = std::exchange(taken_ns_, now_ns) == 0;
  if (is_first || (pace.calls == 0 && pace.waits.empty() && pace.now.empty())) return std::nullopt;
  return pace;
}

// The thread that waits adds the time to `times` when it next looks, up to 50 ms later, and this thread reads them some time after it read
// the clock. So times may have grown by more than the interval.
std::vector<PaceWait> PaceMeter::longestWaits(const WaitTimes& times, uint32_t interval_us) {
  waited_ns_.resize(2 * static_cast<size_t>(times.ranks()));
  std::vector<PaceWait> longest;
  auto before_ns = waited_ns_.begin();
  for (int peer = 0; peer < times.ranks(); ++peer)
    for (const bool for_room : {false, true}) {
      const PeerWait wait{.peer = peer, .for_room = for_room};
      const int64_t now_ns = times.ns(wait);
      const int64_t waited_ns = now_ns - std::exchange(*before_ns++, now_ns);
      const uint32_t us = std::min(bounded(waited_ns / 1000), interval_us);
      if (us > 0) longest.push_back({wait, us});
    }
  const auto end = longest.begin() + std::min<ptrdiff_t>(std::ssize(longest), kMaxPaceWaits);
  std::partial_sort(longest.begin(), end, longest.end(),
                    [](const PaceWait& one, const PaceWait& other) { return one.us > other.us; });
  longest.erase(end, longest.end());
  return longest;
}

}  // namespace horing
