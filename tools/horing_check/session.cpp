#include "horing_check/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "horing_check/baseline.h"
#include "horing_check/collectives.h"
#include "horing_check/pair_meter.h"
#include "horing_check/rounds.h"

namespace horing::check {

namespace {

using SessionClock = std::chrono::steady_clock;

// The duration of one direction. Longer gives no more information, shorter too little.
constexpr double kMostSlotSeconds = 0.25, kLeastSlotSeconds = 0.02;
// The share of the time for measuring; the rest is for starting, gathering and writing.
constexpr double kMeasuringShare = 0.8;

struct Sent {
  int32_t partner;
  Reading reading;
};

class Session {
 public:
  Session(Nodes& nodes, const SessionOptions& options,
          const std::function<void(const std::string&)>& progress)
      : nodes_(nodes),
        options_(options),
        progress_(progress),
        rounds_(nodes.count(), options.all_pairs, options.seed) {
    report_.names = nodes.names();
    report_.ranks = nodes.ranks();
    report_.figures.nodes = nodes.count();
  }

  Report run() {
    Status status = measurePairs();
    report_.seconds = elapsed();
    if (options_.soak) report_.collectives.left_out = "the time was for moving data between pairs (--soak)";
    if (status.ok() && !options_.soak) status = measureTogether();
    if (!status.ok()) {
      const int failed = nodes_.failedNode();
      if (failed >= 0 && failed < nodes_.count()) report_.failed = failed;
      const std::string who = report_.failed < 0 ? ""
                                                 : report_.names[static_cast<size_t>(report_.failed)] +
                                                       " is to be looked at first: ";
      report_.cut_short = who + status.message();
      report_.verdict = diagnose(report_.figures);
    }
    report_.soaked = options_.soak;
    if (options_.soak) report_.sunk = lossesWithin(report_.names, report_.figures);
    return std::move(report_);
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(SessionClock::now() - options_.start).count();
  }
  SessionClock::time_point end() const {
    return options_.start +
           std::chrono::duration_cast<SessionClock::duration>(std::chrono::duration<double>(options_.time_s));
  }

  Status measurePairs() {
    HORING_TRY(compareFacts());
    PairMeter meter(nodes_.comm(), nodes_.self());
    for (;;) {
      std::vector<int32_t> plan = planRound();
      HORING_TRY(nodes_.limitWaits(end()));
      HORING_TRY(nodes_.broadcast(plan));
      const double slot_s = plan.back() * 1e-6;
      if (slot_s <= 0) return {};
      Sent mine{plan[static_cast<size_t>(nodes_.self())], {}};
      if (mine.partner >= 0) {
        HORING_ASSIGN(mine.reading, meter.measure(mine.partner, slot_s));
      }
      HORING_ASSIGN(const std::vector<char> all, nodes_.gather(&mine, sizeof mine));
      note(all);
    }
  }

  // The other nodes leave it to node 0 to say what went wrong.
  Status measureTogether() {
    if (nodes_.self() == 0) progress_("collectives");
    HORING_TRY(nodes_.limitWaits(end()));
    Result<Collectives> measured = measureCollectives(nodes_, report_, end());
    if (measured.ok()) report_.collectives = measured.take();
    return nodes_.self() == 0 ? measured.status() : Status();
  }

  Status compareFacts() {
    HORING_ASSIGN(const std::vector<std::string> texts, nodes_.gatherTexts(factsToText(gatherNodeFacts())));
    std::vector<NodeFacts> facts;
    for (const std::string& text : texts) facts.push_back(factsFromText(text));
    report_.differences = differences(facts);
    std::set<std::string> names;
    for (const NodeFacts& of_node : facts)
      for (const auto& [name, value] : of_node) names.insert(name);
    report_.facts = names.size();
    return {};
  }

  // Partners, and the time of a direction in microseconds; 0: the end. Node 0 decides.
  std::vector<int32_t> planRound() {
    std::vector<int32_t> plan(static_cast<size_t>(nodes_.count()) + 1, 0);
    if (nodes_.self() != 0) return plan;
    const int usual = rounds_.planned() + kMostConfirmingRounds;
    const double slot_s =
        std::clamp(kMeasuringShare * options_.time_s / (2.5 * usual), kLeastSlotSeconds, kMostSlotSeconds);
    const bool out_of_time = elapsed() + 3 * slot_s > options_.time_s;
    const bool is_judged = !options_.soak && report_.rounds >= rounds_.planned();
    if (out_of_time || is_judged) report_.verdict = diagnose(report_.figures);
    if (out_of_time && report_.rounds < rounds_.planned())
      report_.cut_short =
          formatString("the time was too short: %d of %d rounds are done (%s)", report_.rounds,
                       rounds_.planned(), options_.soak ? "--soak" : "--time");
    if (out_of_time) return plan;
    const std::optional<Matching> partner =
        options_.soak ? rounds_.next(report_.rounds) : rounds_.after(report_.rounds, report_.verdict);
    if (!partner) return plan;
    std::copy(partner->begin(), partner->end(), plan.begin());
    plan.back() = static_cast<int32_t>(slot_s * 1e6);
    return plan;
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
      if (!std::isfinite(reading.bytes_per_s) || !std::isfinite(reading.latency_s)) continue;
      const TcpSegments sent = of_node(from).reading.sent;
      report_.figures.samples.push_back({from, to, reading.bytes_per_s, reading.latency_s,
                                         reading.wrong_bytes, reading.bytes, report_.rounds, sent.sent,
                                         sent.resent});
    }
    ++report_.rounds;
    const int planned = rounds_.planned();
    if (nodes_.self() == 0)
      progress_(options_.soak
                    ? formatString("round %d, %.0f of %.0f s", report_.rounds, elapsed(), options_.time_s)
                : report_.rounds <= planned ? formatString("round %d of %d", report_.rounds, planned)
                                            : formatString("%d more to be sure", report_.rounds - planned));
  }

  Nodes& nodes_;
  const SessionOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  Rounds rounds_;
  Report report_;
};

}  // namespace

Report runSession(Nodes& nodes, const SessionOptions& options,
                  const std::function<void(const std::string&)>& progress) {
  return Session(nodes, options, progress).run();
}

}  // namespace horing::check
