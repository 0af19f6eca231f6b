#include "horing_check/clocks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace horing::check {

namespace {

constexpr double kOffSeconds = 0.1;
constexpr int kClockTurns = 4;

int64_t nowNs() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

double seconds(int64_t later_ns, int64_t earlier_ns) {
  return (static_cast<double>(later_ns) - static_cast<double>(earlier_ns)) * 1e-9;
}

// How far a clock is ahead of node 0's, at least and at most.
struct Ahead {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  double middle() const { return (least + most) / 2; }
};

}  // namespace

bool isOff(const ClockOffset& clock) {
  return std::abs(clock.offset_s) > kOffSeconds + clock.uncertainty_s;
}

std::vector<ClockOffset> offsetsOf(const std::vector<std::vector<ClockReading>>& turns) {
  std::vector<Ahead> ahead(turns.front().size());
  for (const std::vector<ClockReading>& turn : turns)
    for (size_t node = 1; node < turn.size(); ++node) {
      ahead[node].least = std::max(ahead[node].least, seconds(turn[node].before_ns, turn[0].after_ns));
      ahead[node].most = std::min(ahead[node].most, seconds(turn[node].after_ns, turn[0].before_ns));
    }
  ahead[0] = {0, 0};
  std::vector<size_t> order(ahead.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t node) { return ahead[node].middle(); });
  const Ahead usual = ahead[order[(order.size() - 1) / 2]];
  std::vector<ClockOffset> offsets;
  for (const Ahead& one : ahead)
    offsets.push_back({one.middle() - usual.middle(), (one.most - one.least + usual.most - usual.least) / 2});
  return offsets;
}

Result<std::vector<ClockOffset>> measureClocks(Nodes& nodes) {
  std::vector<std::vector<ClockReading>> turns;
  ClockReading mine;
  // Each all-gather brings the readings of the one before.
  for (int turn = 0; turn <= kClockTurns; ++turn) {
    const ClockReading last = mine;
    mine.before_ns = nowNs();
    HORING_ASSIGN(const std::vector<char> all, nodes.gather(&last, sizeof last));
    mine.after_ns = nowNs();
    if (turn == 0) continue;
    std::vector<ClockReading>& readings = turns.emplace_back(static_cast<size_t>(nodes.count()));
    std::memcpy(readings.data(), all.data(), all.size());
  }
  return offsetsOf(turns);
}

}  // namespace horing::check
