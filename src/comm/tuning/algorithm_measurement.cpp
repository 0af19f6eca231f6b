#include "comm/tuning/algorithm_measurement.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"
#include "comm/communicator.h"
#include "comm/tuning/calibration.h"
#include "comm/tuning/tuning.h"
#include "schedule/postcondition.h"
#include "selection/table_words.h"
#include "sim/simulation.h"

namespace horing {

namespace {

constexpr int kRounds = 7;
constexpr double kRoundUs = 3000;
constexpr double kLongUs =
    20'000;  // a call that takes longer is a round by itself, and there are fewer rounds
constexpr int kLongRounds = 3;
constexpr int kMostTimes = 300;
// Passes over all algorithms. A disturbance of the machine during one pass does not affect the others. Links settle in the first.
constexpr int kLooks = 3;
constexpr double kLookUs = 20'000;
constexpr double kForEverUs = 1e12;
// An algorithm that is kHopeless times slower than the fastest is not measured again; one that is at most kHardly times slower does not get
// another algorithm's row.
constexpr double kHopeless = 3, kHardly = 1.03;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double spreadOf(const std::vector<double>& rounds) {
  std::vector<double> halves[2];
  for (size_t i = 0; i < rounds.size(); ++i) halves[i % 2].push_back(rounds[i]);
  const double a = median(halves[0]), b = median(halves[1]);
  return std::max(a, b) / std::max(std::min(a, b), 1e-3);
}

const MeasuredPoint::Time& fastest(const MeasuredPoint& point) {
  return *std::min_element(point.times.begin(), point.times.end(),
                           [](const auto& a, const auto& b) { return a.us < b.us; });
}

// Measures the algorithms of one collective.
class AlgorithmMeasurement {
 public:
  AlgorithmMeasurement(Communicator& communicator, Collective collective, uint64_t most_bytes);
  Result<MeasuredPoint> point(uint64_t bytes);

 private:
  bool canRun(const Algorithm& algorithm) const;
  bool runTheSame(const Algorithm& one, const Algorithm& other) const;
  void shuffle(std::vector<size_t>& order);
  Result<double> round(const Algorithm& algorithm, int times);
  // The number of calls that fit into the time; 1 while the time of a call is unknown.
  static int timesIn(double within_us, double us, int most) {
    return static_cast<int>(std::clamp(within_us / us, 1.0, static_cast<double>(most)));
  }

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  Collective collective_;
  std::vector<const Algorithm*> algorithms_;
  // For each algorithm, the number of the one whose time it takes: the first algorithm that runs the same schedules.
  std::vector<size_t> measured_;
  std::vector<std::byte> input_, output_;
  Call call_;
  Random dice_{1};
};

AlgorithmMeasurement::AlgorithmMeasurement(Communicator& communicator, Collective collective,
                                           uint64_t most_bytes)
    : communicator_(communicator), collective_(collective) {
  // Each block has at least one element.
  const size_t room = most_bytes + static_cast<size_t>(communicator.membership().ranks()) * sizeof(float);
  input_.resize(room);
  output_.resize(room);
  call_.collective = collective;
  call_.input = input_.data();
  call_.output = output_.data();
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    if (!canRun(algorithm)) continue;
    size_t first = 0;
    while (first < algorithms_.size() && !runTheSame(*algorithms_[first], algorithm)) ++first;
    algorithms_.push_back(&algorithm);
    measured_.push_back(first);
  }
}

bool AlgorithmMeasurement::canRun(const Algorithm& algorithm) const {
  if (!algorithm.has(collective_) || algorithm.reachesPeers()) return false;
  const Selection selection = selectionOf(algorithm, membership_.placement().map());
  return fitsGroups(algorithm, membership_.placement().map()) &&
         buildSchedule(algorithm.name, collective_, selection.shape, 0).ok();
}

// Inside one group, and between two, many patterns coincide: every rank has the same schedule. Trees may coincide for one root and differ
// for another.
bool AlgorithmMeasurement::runTheSame(const Algorithm& one, const Algorithm& other) const {
  if (hasRoot(collective_)) return false;
  const auto scheduleOf = [&](const Selection& selection, int32_t position) {
    Schedule schedule =
        buildSchedule(selection.algorithm->name, collective_, selection.shape, position).take();
    schedule.algorithm.clear();
    return schedule;
  };
  const Selection first = selectionOf(one, membership_.placement().map()),
                  second = selectionOf(other, membership_.placement().map());
  for (int32_t position = 0; position < membership_.ranks(); ++position)
    if (scheduleOf(first, position) != scheduleOf(second, position)) return false;
  return true;
}

// The order differs each time and is the same on every rank, because a call finds caches and queues as the previous call left them.
void AlgorithmMeasurement::shuffle(std::vector<size_t>& order) {
  for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[dice_.upTo(left - 1)]);
}

// Returns the microseconds of one call.
Result<double> AlgorithmMeasurement::round(const Algorithm& algorithm, int times) {
  chooseBy(communicator_, SelectionTable::only(algorithm));
  HORING_TRY(communicator_.run(call_));  // waits until all ranks are here
  const SteadyClock clock;
  const int64_t begun_ns = clock.nowNs();
  for (int i = 0; i < times; ++i) HORING_TRY(communicator_.run(call_));
  return mostOfAll(communicator_, static_cast<double>(clock.nowNs() - begun_ns) / 1000 / times);
}

Result<MeasuredPoint> AlgorithmMeasurement::point(uint64_t bytes) {
  call_.count = elementsOf(collective_, membership_.ranks(), bytes, sizeof(float));
  MeasuredPoint point{collective_, bytes, {}};
  std::vector<size_t> order;
  for (size_t i = 0; i < algorithms_.size(); ++i) {
    point.times.push_back({algorithms_[i], kForEverUs, 0});
    if (measured_[i] == i) order.push_back(i);
  }
  if (order.empty())
    return makeStatus(Code::kInvalidArgument, "no algorithm can run %s here", collectiveName(collective_));
  for (int i = 0; i < kLooks; ++i) {
    shuffle(order);
    for (const size_t which : order) {
      MeasuredPoint::Time& time = point.times[which];
      if (i > 0 && time.us >= kLongUs) continue;
      HORING_ASSIGN(const double us, round(*time.algorithm, timesIn(kLookUs, time.us, kSettlingTimes)));
      time.us = std::min(time.us, us);
    }
  }
  const double best_us = fastest(point).us;
  std::vector<std::vector<double>> rounds(point.times.size());
  for (int i = 0; i < (best_us < kLongUs ? kRounds : kLongRounds); ++i) {
    shuffle(order);
    for (const size_t which : order) {
      const MeasuredPoint::Time& time = point.times[which];
      if (time.us > kHopeless * best_us) continue;
      HORING_ASSIGN(const double us, round(*time.algorithm, timesIn(kRoundUs, time.us, kMostTimes)));
      rounds[which].push_back(us);
    }
  }
  for (size_t i = 0; i < point.times.size(); ++i) {
    const std::vector<double>& taken = rounds[measured_[i]];
    point.times[i].us = taken.empty() ? point.times[measured_[i]].us : median(taken);
    point.times[i].spread = taken.empty() ? 0 : spreadOf(taken);
  }
  return point;
}

// The fastest algorithm, or the one that serves the previous size if it is hardly slower.
const Algorithm* chosen(const MeasuredPoint& point, const Algorithm* before) {
  const MeasuredPoint::Time& best = fastest(point);
  for (const MeasuredPoint::Time& time : point.times)
    if (time.algorithm == before && time.us <= kHardly * best.us) return before;
  return best.algorithm;
}

}  // namespace

Result<std::vector<MeasuredPoint>> measureAlgorithms(Communicator& communicator, const AlgorithmGrid& grid) {
  std::vector<MeasuredPoint> points;
  for (const Collective collective : grid.collectives) {
    AlgorithmMeasurement measurement(communicator, collective, grid.sizes.back());
    for (const uint64_t bytes : grid.sizes) {
      HORING_ASSIGN(MeasuredPoint point, measurement.point(bytes));
      points.push_back(std::move(point));
    }
  }
  chooseBy(communicator, SelectionTable::builtIn());
  return points;
}

std::string measuredTableText(const std::vector<MeasuredPoint>& points, const JobShape& job, Larger larger) {
  std::string times =
      "# measured: microseconds, and what two halves of the rounds differ by; algorithms without that "
      "looked\n"
      "# hopeless at once; those that run the same schedules are measured as one\n";
  std::string rows = "# collective   groups  ranks of each  ranks per core  up to bytes  algorithm\n";
  const Algorithm* serving = nullptr;
  for (size_t i = 0; i < points.size(); ++i) {
    const MeasuredPoint& point = points[i];
    times += formatString("# %s %s:", collectiveName(point.collective), tableBytesText(point.bytes).c_str());
    for (const MeasuredPoint::Time& time : point.times)
      times += time.spread > 0 ? formatString(" %s %.2f (%.3f)", time.algorithm->name, time.us, time.spread)
                               : formatString(" %s %.2f", time.algorithm->name, time.us);
    times += '\n';
    const bool is_first = i == 0 || points[i - 1].collective != point.collective;
    const bool is_last = i + 1 == points.size() || points[i + 1].collective != point.collective;
    serving = chosen(point, is_first ? nullptr : serving);
    if (!is_last && chosen(points[i + 1], serving) == serving) continue;
    const double ratio =
        is_last ? 1 : static_cast<double>(points[i + 1].bytes) / static_cast<double>(point.bytes);
    const auto edge = static_cast<size_t>(static_cast<double>(point.bytes) * std::sqrt(ratio));
    rows += formatString("%-14s %-7d %-14d %-15s %-12s %s\n", collectiveName(point.collective), job.groups,
                         job.members, ranksPerCoreText(job.ranks_per_core),
                         is_last && larger == Larger::kServed ? "*" : tableBytesText(edge).c_str(),
                         serving->name);
  }
  return times + rows;
}

}  // namespace horing
