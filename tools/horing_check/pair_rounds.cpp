#include "horing_check/pair_rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "horing_check/pair_meter.h"
#include "horing_check/rounds.h"

namespace horing::check {

namespace {

using RoundsClock = std::chrono::steady_clock;

// The duration of one direction. Longer gives no more information, shorter too little.
constexpr double kMostSlotSeconds = 0.25, kLeastSlotSeconds = 0.02;
// One direction, the other, both at once, and the latency.
constexpr double kSlotsOfRound = 4;
// The share of the time for measuring; the rest is for starting, gathering and writing, and for the collectives.
constexpr double kMeasuringShare = 0.8;
// For each figure, before a verdict has shown how long one takes here.
constexpr double kJudgingSeconds = 4e-5;
// Of more figures each takes longer: 6.5 us of 560 rounds of 8,192 nodes, and 2.9 to 4.7 of 13.
constexpr double kLongerLater = 3;

struct Sent {
  int32_t partner;
  Reading reading;
};

class Measuring {
 public:
  Measuring(Nodes& nodes, const SessionOptions& options, double until_s, RoundsClock::time_point end,
            const Progress& progress, PairRounds& done)
      : nodes_(nodes),
        options_(options),
        begin_s_(elapsed()),
        until_s_(until_s),
        end_(end),
        progress_(progress),
        done_(done),
        rounds_(nodes.count(), options.all_pairs, options.seed, options.shares) {
    done_.figures.nodes = nodes.count();
    done_.figures.shares = options.shares;
  }

  Status run() {
    PairMeter meter(nodes_.comm(), nodes_.self());
    for (;;) {
      std::vector<int32_t> plan = planRound();
      HORING_TRY(nodes_.limitWaits(end_));
      HORING_TRY(nodes_.broadcast(plan));
      const double slot_s = plan.back() * 1e-6;
      if (slot_s <= 0) return {};
      Sent mine{plan[static_cast<size_t>(nodes_.self())], {}};
      if (mine.partner >= 0) {
        HORING_ASSIGN(mine.reading, meter.measure(mine.partner, slot_s));
      }
      HORING_TRY(nodes_.gather(&mine.partner, sizeof mine.partner).status());  // all begin together
      if (mine.partner >= 0) HORING_TRY(meter.exchange(mine.partner, slot_s, mine.reading));
      HORING_ASSIGN(const std::vector<char> all, nodes_.gather(&mine, sizeof mine));
      note(all);
    }
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(RoundsClock::now() - options_.start).count();
  }
  // Partners, and the time of a direction in microseconds; 0: the end. Node 0 decides.
  std::vector<int32_t> planRound() {
    std::vector<int32_t> plan(static_cast<size_t>(nodes_.count()) + 1, 0);
    if (nodes_.self() != 0) return plan;
    const int usual = rounds_.planned() + kMostConfirmingRounds;
    const double time_s = until_s_ - begin_s_;
    const double slot_s =
        std::clamp(kMeasuringShare * time_s / (kSlotsOfRound * usual), kLeastSlotSeconds, kMostSlotSeconds);
    // A soak asks once, how long it takes.
    const bool needs_verdict =
        options_.soak ? done_.rounds == rounds_.planned() : done_.rounds >= rounds_.planned();
    if (needs_verdict) judgeInTime();
    // More rounds than usual leave time for the collectives. After each there is time for its verdict.
    const bool is_extra = !options_.soak && done_.rounds >= usual;
    const double end_s = is_extra ? begin_s_ + kMeasuringShare * time_s : until_s_;
    if (elapsed() + kSlotsOfRound * slot_s + judgingSeconds() > end_s) {
      judgeInTime();
      if (done_.rounds < rounds_.planned())
        done_.cut_short = formatString("the time was too short: %d of %d rounds are done (%s)", done_.rounds,
                                       rounds_.planned(), options_.soak ? "--soak" : "--time");
      return plan;
    }
    const std::optional<Matching> partner =
        options_.soak ? rounds_.next(done_.rounds) : rounds_.after(done_.rounds, done_.verdict);
    if (!partner) return plan;
    std::copy(partner->begin(), partner->end(), plan.begin());
    plan.back() = static_cast<int32_t>(slot_s * 1e6);
    return plan;
  }

  // What a verdict takes on all figures.
  double judgingSeconds() const {
    return seconds_of_figure_ * static_cast<double>(done_.figures.samples.size());
  }
  // On all figures. Without the time for that an earlier verdict stays; the first is made anyway, and that of a soak.
  void judgeInTime() {
    if (judged_ == done_.rounds) return;
    const double begin_s = elapsed();
    if (judged_ >= 0 && !options_.soak && begin_s + judgingSeconds() > until_s_) return;
    done_.verdict = diagnose(done_.figures);
    judged_ = done_.rounds;
    seconds_of_figure_ = (options_.soak ? kLongerLater : 1) * (elapsed() - begin_s) /
                         static_cast<double>(std::max<size_t>(done_.figures.samples.size(), 1));
  }

  void note(const std::vector<char>& all) {
    const auto of_node = [&](int node) {
      Sent sent{};
      std::memcpy(&sent, all.data() + static_cast<size_t>(node) * sizeof sent, sizeof sent);
      return sent;
    };
    for (int to = 0; to < nodes_.count(); ++to) {
      const auto [from, reading] = of_node(to);
      if (from < 0 || from >= nodes_.count() || of_node(from).partner != to) continue;
      if (!std::isfinite(reading.bytes_per_s) || !std::isfinite(reading.latency_s) ||
          !std::isfinite(reading.at_once_bytes_per_s))
        continue;
      const TcpSegments sent = of_node(from).reading.sent;
      done_.figures.samples.push_back({from, to, reading.bytes_per_s, reading.latency_s, reading.wrong_bytes,
                                       reading.bytes, done_.rounds, sent.sent, sent.lost(),
                                       reading.at_once_bytes_per_s});
    }
    ++done_.rounds;
    const int planned = rounds_.planned();
    if (nodes_.self() == 0)
      progress_(options_.soak
                    ? formatString("round %d, %.0f of %.0f s", done_.rounds, elapsed(), options_.time_s)
                : done_.rounds <= planned ? formatString("round %d of %d", done_.rounds, planned)
                                          : formatString("%d more to be sure", done_.rounds - planned));
  }

  Nodes& nodes_;
  const SessionOptions& options_;
  const double begin_s_, until_s_;  // of these rounds, since the start
  int judged_ = -1;                 // rounds that the verdict knows; -1: there is none
  double seconds_of_figure_ = kJudgingSeconds;
  const RoundsClock::time_point end_;
  const Progress& progress_;
  PairRounds& done_;
  Rounds rounds_;
};

}  // namespace

Status measurePairsOn(Nodes& nodes, const SessionOptions& options, double until_s,
                      RoundsClock::time_point end, const Progress& progress, PairRounds& done) {
  return Measuring(nodes, options, until_s, end, progress, done).run();
}

}  // namespace horing::check
