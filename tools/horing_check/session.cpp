#include "horing_check/session.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/number.h"
#include "horing_check/baseline.h"
#include "horing_check/collectives.h"
#include "horing_check/pair_rounds.h"
#include "horing_check/roll_call.h"
#include "topology/hwloc_graph.h"

namespace horing::check {

namespace {

using SessionClock = std::chrono::steady_clock;

// For the nodes to meet on one rail.
constexpr double kMostMeetingSeconds = 10;
// Of the time, for what moves inside nodes.
constexpr double kShareOfPaths = 0.25;
// After the end: before the time limit ends the process.
constexpr std::chrono::milliseconds kLatestAnswer = kExitedAfter - std::chrono::milliseconds(1000);

class Session {
 public:
  Session(Nodes& nodes, const SessionOptions& options,
          const std::function<void(const std::string&)>& progress)
      : nodes_(nodes), options_(options), progress_(progress) {
    report_.names = nodes.names();
    report_.blocked = nodes.blocked();
    report_.left_out = nodes.leftOut();
    report_.ranks = nodes.ranks();
  }

  Report run() {
    Status status = measurePairs();
    report_.seconds = elapsed();
    report_.figures = std::move(pairs_.figures);
    report_.verdict = std::move(pairs_.verdict);
    report_.rounds = pairs_.rounds;
    report_.cut_short = pairs_.cut_short;
    if (options_.soak) report_.collectives.left_out = "the time was for moving data between pairs (--soak)";
    const bool has_pairs = status.ok();
    if (has_pairs && !options_.soak) status = measureTogether();
    if (!status.ok())
      explain(status, has_pairs);
    else if (nodes_.self() == 0)
      roll_call_.dismiss();
    std::vector<Verdict> of_rails;
    for (const RailReport& rail : report_.rails) of_rails.push_back(rail.verdict);
    addRails(report_.verdict, of_rails);
    addFindings(report_.verdict, inside_.findings());
    addFindings(report_.verdict, inside_paths_.findings());
    report_.inside_paths = inside_paths_.paths();
    report_.inside = inside_.rates();
    report_.soaked = options_.soak;
    if (options_.soak) report_.sunk = lossesWithin(report_.names, report_.figures);
    return std::move(report_);
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(SessionClock::now() - options_.start).count();
  }
  SessionClock::time_point at(double seconds) const {
    return options_.start +
           std::chrono::duration_cast<SessionClock::duration>(std::chrono::duration<double>(seconds));
  }
  SessionClock::time_point end() const { return at(options_.time_s); }
  bool isOver() const { return SessionClock::now() >= end(); }

  // Who does not answer, and what the library says.
  void explain(const Status& status, bool has_pairs) {
    const bool is_over = isOver();
    const std::optional<std::vector<int>> missing = roll_call_.missing(end() + kLatestAnswer);
    if (is_over && has_pairs && (!missing || missing->empty())) {
      report_.collectives.left_out = "the time was over before they were";
      return;
    }
    report_.cut_short = status.message();
    if (!missing) return;
    report_.reporter = nodes_.self();
    report_.missing = *missing;
    const int failed = nodes_.failedNode();
    const bool is_node = !is_over && failed >= 0 && failed < nodes_.count();
    if (is_node && report_.missing.empty() && !roll_call_.looksFor(failed)) report_.missing = {failed};
    std::string why;
    if (!report_.missing.empty())
      why = hostListOf(report_, report_.missing) + (report_.missing.size() > 1 ? " do" : " does") +
            " not answer any more";
    else if (is_over)
      why =
          "the time was over before all was measured (" + std::string(options_.soak ? "--soak)" : "--time)");
    else if (is_node)
      why = report_.names[static_cast<size_t>(failed)] +
            " had an error or was not heard for a while, and answers now";
    // Calls that the time limit has ended say nothing else.
    if (!why.empty()) report_.cut_short = why + (nodes_.timeLimit().isOver() ? "" : ": " + status.message());
    report_.verdict = diagnose(report_.figures);
  }

  Status measurePairs() {
    HORING_TRY(roll_call_.prepare(nodes_));
    HORING_TRY(compareFacts());
    HORING_TRY(nodes_.limitWaits(end()));
    HORING_ASSIGN(report_.clocks, measureClocks(nodes_));
    HORING_TRY(inside_.measure(nodes_, processors_));
    HORING_TRY(inside_paths_.measure(nodes_, processors_, graph_,
                                     at(elapsed() + kShareOfPaths * (options_.time_s - elapsed()))));
    const ErrorCounters before = readErrorCounters(interfacesInUse());
    HORING_TRY(measurePairsOn(nodes_, options_, endOfShare(), end(), progress_, pairs_));
    HORING_TRY(measureRails());
    HORING_TRY(nodes_.limitWaits(end()));
    // Not in a row: what disturbs a node for a second is over by now.
    if (!inside_.findings().empty()) HORING_TRY(inside_.measure(nodes_, processors_));
    if (!inside_paths_.findings().empty())
      HORING_TRY(inside_paths_.measure(nodes_, processors_, graph_, end()));
    return gatherErrors(grownSince(before, readErrorCounters(interfacesInUse())));
  }

  // A rail on which the nodes do not reach each other is left out. If a node is lost, the next call on all rails says so.
  Status measureRails() {
    if (options_.soak) return {};
    for (size_t rail = 0; rail < nodes_.rails().size(); ++rail) {
      report_.rails.push_back({nodes_.rails()[rail], {}, 0, ""});
      const Status measured = measureRail(static_cast<int>(rail), report_.rails.back());
      if (!measured.ok()) report_.rails.back().left_out = measured.message();
    }
    return {};
  }

  Status measureRail(int rail, RailReport& report) {
    const double until_s = endOfShare();
    HORING_TRY(nodes_.limitWaits(at(std::min(until_s, elapsed() + kMostMeetingSeconds))));
    HORING_ASSIGN(Nodes alone, nodes_.onRail(rail));
    PairRounds pairs;
    const Status measured = measurePairsOn(alone, options_, until_s, at(until_s), progress_, pairs);
    report.verdict = diagnose(pairs.figures);
    report.rounds = pairs.rounds;
    report.left_out = pairs.cut_short;
    return measured;
  }

  Status gatherErrors(const ErrorCounters& grown) {
    NodeFacts as_text;
    for (const auto& [name, count] : grown) as_text[name] = std::to_string(count);
    HORING_TRY(nodes_.limitWaits(end()));
    HORING_ASSIGN(const std::vector<std::string> texts, nodes_.gatherTexts(factsToText(as_text)));
    for (const std::string& text : texts) {
      ErrorCounters& of_node = report_.errors.emplace_back();
      for (const auto& [name, count] : factsFromText(text))
        of_node[name] = numberOf<uint64_t>(count).value_or(0);
    }
    return {};
  }

  // The rounds on all rails and those on each one get equal parts of the time; what one leaves, the others have.
  double endOfShare() const {
    const size_t rails = options_.soak ? 0 : nodes_.rails().size();
    const double now_s = elapsed();
    return now_s + (options_.time_s - now_s) / static_cast<double>(rails + 1 - report_.rails.size() +
                                                                   (report_.rails.empty() ? 0 : 1));
  }

  Status measureTogether() {
    if (nodes_.self() == 0) progress_("collectives");
    HORING_TRY(nodes_.limitWaits(end()));
    Result<Collectives> measured = measureCollectives(nodes_, report_, end());
    if (measured.ok()) report_.collectives = measured.take();
    return measured.status();
  }

  Status compareFacts() {
    HORING_ASSIGN(const std::vector<std::string> texts,
                  nodes_.gatherTexts(factsToText(gatherNodeFacts(graph_))));
    std::vector<NodeFacts> facts;
    for (const std::string& text : texts) {
      facts.push_back(factsFromText(text));
      processors_.push_back(facts.back()["processor"]);
    }
    report_.differences = differences(facts);
    report_.unreadable = unreadable(facts);
    std::set<std::string> names;
    for (const NodeFacts& of_node : facts)
      for (const auto& [name, value] : of_node)
        if (value != kNoRights) names.insert(name);
    report_.facts = names.size();
    return {};
  }

  Nodes& nodes_;
  const SessionOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  const Result<MachineGraph> graph_ = graphOfThisMachine();
  std::vector<std::string> processors_;  // by node
  RollCall roll_call_;
  InsideMeter inside_;
  InsidePathMeter inside_paths_;
  PairRounds pairs_;
  Report report_;
};

}  // namespace

Report runSession(Nodes& nodes, const SessionOptions& options,
                  const std::function<void(const std::string&)>& progress) {
  return Session(nodes, options, progress).run();
}

}  // namespace horing::check
