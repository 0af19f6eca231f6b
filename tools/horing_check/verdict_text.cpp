// The verdict as a few lines of text.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/quantity.h"
#include "horing_check/reach.h"
#include "horing_check/report.h"
#include "horing_check/rounds.h"

namespace horing::check {

namespace {

constexpr double kAsExpected = 0.9;  // of the expected speed: less is a loss that needs a reason

std::string rateText(double bytes_per_s) {
  return bytesText(bytes_per_s) + "/s";
}

std::string percent(double share) {
  return formatString("%.0f %%", 100 * share);
}

class Sentences {
 public:
  explicit Sentences(const Report& report) : report_(report) {}

  // One for each node and quantity, one for each path and each uplink.
  std::string all(bool confirmed) const {
    std::string text;
    const std::vector<Finding>& findings = report_.verdict.findings;
    for (size_t i = 0; i < findings.size(); ++i) {
      if (findings[i].confirmed != confirmed || isOfUplink(report_.verdict, findings[i]) ||
          isOfRail(report_.verdict, findings[i]))
        continue;
      const bool both = i + 1 < findings.size() && isSameNode(findings[i], findings[i + 1]);
      text += "  " + sentence(findings[i], both ? &findings[i + 1] : nullptr) + "\n";
      i += both ? 1 : 0;
    }
    for (const Uplink& uplink : report_.verdict.uplinks)
      if (uplink.confirmed == confirmed) text += "  " + uplinkSentence(uplink) + "\n";
    return text;
  }

 private:
  std::string uplinkSentence(const Uplink& uplink) const {
    return hostListOf(report_, uplink.nodes) +
           (uplink.rail < 0 ? "" : " on rail " + std::to_string(uplink.rail)) +
           (uplink.part == Part::kSends ? " send at " : " receive at ") + percent(uplink.factor) + " of " +
           whoseRate(uplink.rail) +
           (differ() ? "" : " (" + rateText(uplink.factor * of(uplink.rail).bytes_per_s) + ")") +
           (uplink.at_once ? " while several of them exchange data with the others at once" : "") +
           ", but not among themselves: look at the uplink or switch that they share" +
           (2 * uplink.nodes.size() == report_.names.size() ? ", or at that of the others" : "");
  }

  static bool isSameNode(const Finding& a, const Finding& b) {
    const auto is_side = [](const Finding& one) {
      return one.part == Part::kSends || one.part == Part::kReceives;
    };
    return is_side(a) && is_side(b) && a.node == b.node && a.quantity == b.quantity &&
           a.confirmed == b.confirmed && a.rail == b.rail;
  }
  // "node5", or "node5 eth1" if it is about one adapter.
  std::string name(int node, int rail) const {
    const std::string& host = report_.names[static_cast<size_t>(node)];
    return rail < 0 ? host
                    : host + " " + report_.rails[static_cast<size_t>(rail)].names[static_cast<size_t>(node)];
  }
  const Verdict& of(int rail) const {
    return rail < 0 ? report_.verdict : report_.rails[static_cast<size_t>(rail)].verdict;
  }
  bool differ() const { return !report_.figures.shares.empty(); }
  std::string whoseRate(int rail) const {
    return std::string(differ() ? "what is expected" : "the cluster's rate") +
           (rail < 0 ? "" : " on that rail");
  }
  // Of the node, or of the path.
  std::string rateOf(const Finding& finding) const {
    const int to = finding.part == Part::kPath ? finding.to : finding.node;
    return rateText(finding.factor * of(finding.rail).bytes_per_s *
                    report_.figures.shareOf(finding.node, to));
  }

  std::string sentence(const Finding& finding, const Finding* receives) const {
    if (finding.part == Part::kPath) return pathSentence(finding);
    if (finding.quantity == Quantity::kRate) return rateSentence(finding, receives);
    if (finding.quantity == Quantity::kLatency)
      return formatString("%s: messages take %.1f times as long as elsewhere (%s; seen with %d partners)",
                          name(finding.node, finding.rail).c_str(), finding.factor,
                          secondsText(finding.factor * of(finding.rail).latency_s).c_str(), finding.partners);
    if (finding.quantity == Quantity::kLoss) return lossSentence(finding, receives);
    if (finding.part == Part::kInside) return insideSentence(finding);
    return name(finding.node, finding.rail) +
           (receives                       ? " sends and receives"
            : finding.part == Part::kSends ? " sends"
                                           : " receives") +
           formatString(
               " wrong bytes (seen with %d partners): look at its memory and adapter, and do not use it",
               finding.partners);
  }

  std::string rateSentence(const Finding& finding, const Finding* receives) const {
    const auto part = [](const Finding& one) {
      return (one.part == Part::kSends ? "sends at " : "receives at ") + percent(one.factor);
    };
    return name(finding.node, finding.rail) + " " + part(finding) +
           (receives ? " and " + part(*receives) : "") + " of " + whoseRate(finding.rail) + " (" +
           rateOf(finding) +
           formatString("; seen with %d partners): look at its adapter, its cable and the switch's port",
                        finding.partners);
  }

  std::string insideSentence(const Finding& finding) const {
    const auto node = static_cast<size_t>(finding.node);
    // None, where only paths were measured.
    const InsideRates rates = node < report_.inside.size() ? report_.inside[node] : InsideRates();
    const auto sentence = [&](const char* what, double rate, const char* advice) {
      return name(finding.node, -1) + what + percent(finding.factor) + " of the rate of others (" +
             rateText(rate) + "): look at " + advice;
    };
    if (finding.quantity == Quantity::kCopy)
      return sentence(" copies memory at ", rates.copy,
                      "programs that run beside the check, its memory modules and its clock");
    if (finding.quantity == Quantity::kData)
      return name(finding.node, -1) + ": other bytes arrive than were sent from " + finding.what +
             ": look at PCIe switches with ACS, at the IOMMU, and at the GPUs' error counters, and do not "
             "use it";
    if (finding.quantity == Quantity::kInsidePath)
      return name(finding.node, -1) + ": " + finding.what + " at " + percent(finding.factor) +
             " of the rate of others: look at programs that run beside the check, at the width and speed of "
             "its links, "
             "and at its clock";
    if (finding.quantity == Quantity::kFold)
      return sentence(" sums numbers at ", rates.fold,
                      "programs that run beside the check, its clock, temperature and power limit");
    if (finding.quantity == Quantity::kRunning)
      return name(finding.node, -1) + " ran only " + percent(rates.running) +
             " of the time: look at programs that run beside the check, and at limits of its processor time";
    return sentence(" moves data between two of its ranks at ", rates.shared,
                    "where its ranks are bound, and at programs that run beside the check");
  }

  std::string lossSentence(const Finding& finding, const Finding* receives) const {
    const auto part = [](const Finding& one) {
      return formatString("%.2g %% of what it %s", 100 * one.factor,
                          one.part == Part::kSends ? "sends" : "receives");
    };
    return name(finding.node, finding.rail) + " loses " + part(finding) +
           (receives ? " and " + part(*receives) : "") +
           formatString(
               " (seen with %d partners): look at its cable, at the switch's port, and at their error "
               "counters (ethtool -S)",
               finding.partners);
  }

  std::string pathSentence(const Finding& finding) const {
    const std::string ends = name(finding.node, finding.rail) + " to " + name(finding.to, finding.rail);
    const std::string why =
        report_.names.size() == 2
            ? "; two nodes do not show which one is at fault: add a third"
            : ", though both do better with others: look at the links and switches between them";
    if (finding.quantity == Quantity::kRate)
      return ends + ": " + percent(finding.factor) + " of " + whoseRate(finding.rail) + " (" +
             rateOf(finding) + ")" + why;
    if (finding.quantity == Quantity::kLatency)
      return ends + formatString(": messages take %.1f times as long as elsewhere", finding.factor) + why;
    if (finding.quantity == Quantity::kLoss)
      return ends + formatString(": %.2g %% of what is sent is lost", 100 * finding.factor) + why;
    return ends + ": wrong bytes arrive" + why;
  }

  const Report& report_;
};

std::string factLines(const Report& report) {
  std::string text = formatString("facts: %zu compared%s\n", report.facts,
                                  report.differences.empty() ? ", the same on all nodes" : "");
  for (size_t node = 0; node < report.clocks.size(); ++node)
    if (const ClockOffset& clock = report.clocks[node]; isOff(clock))
      text +=
          formatString("  clock of %s: %s %s that of most (to within %s)\n", report.names[node].c_str(),
                       secondsText(std::abs(clock.offset_s)).c_str(),
                       clock.offset_s > 0 ? "ahead of" : "behind", secondsText(clock.uncertainty_s).c_str());
  for (const Difference& difference : report.differences)
    text += "  " + difference.name + ": " + (difference.value.empty() ? "none" : difference.value) + " on " +
            hostListOf(report, difference.nodes) + "; " +
            (difference.usual.empty() ? "none" : difference.usual) + " on most\n";
  for (const auto& [name, nodes] : report.unreadable)
    text += "  " + name + ": not compared on " + hostListOf(report, nodes) + ", " + kNoRights + "\n";
  for (size_t node = 0; node < report.errors.size(); ++node)
    for (const auto& [name, count] : report.errors[node])
      text += formatString("  %s: %llu more %s since the check began\n", report.names[node].c_str(),
                           static_cast<unsigned long long>(count), name.c_str());
  return text;
}

std::string insideLine(const Report& report) {
  const double copy = medianInside(report.inside, &InsideRates::copy),
               fold = medianInside(report.inside, &InsideRates::fold),
               shared = medianInside(report.inside, &InsideRates::shared);
  if (copy <= 0) return {};
  return "inside nodes: a core copies " + rateText(copy) + " and sums " + rateText(fold) +
         (shared > 0 ? ", and two ranks move " + rateText(shared) : "") + " (medians)\n";
}

// Each kind of path, and what is missing.
std::string insidePathLines(const Report& report) {
  std::map<std::string, std::vector<double>> rates;
  std::map<std::string, std::vector<int>> left_out;
  for (size_t node = 0; node < report.inside_paths.size(); ++node) {
    const InsidePaths& paths = report.inside_paths[node];
    for (const InsidePath& path : paths.all) rates[path.kind].push_back(path.bytes_per_s);
    if (!paths.left_out.empty()) left_out[paths.left_out].push_back(static_cast<int>(node));
  }
  std::string text;
  for (auto& [kind, of_kind] : rates) {
    const auto middle = of_kind.begin() + std::ssize(of_kind) / 2;
    std::nth_element(of_kind.begin(), middle, of_kind.end());
    text +=
        formatString("  %s: %s (median of %zu)\n", kind.c_str(), rateText(*middle).c_str(), of_kind.size());
  }
  for (const auto& [why, nodes] : left_out)
    text += "  not measured to the end on " + hostListOf(report, nodes) + ": " + why + "\n";
  return text;
}

std::string figureLines(const Report& report) {
  const Verdict& verdict = report.verdict;
  if (verdict.bytes_per_s == 0) return "between nodes: nothing was measured\n";
  std::set<std::pair<int, int>> measured;
  for (const Sample& sample : report.figures.samples) measured.insert({sample.from, sample.to});
  const size_t nodes = report.names.size();
  std::string text = formatString(
      "between nodes: median %s%s and %s, in %d rounds and %.1f s; %zu of %zu directions measured\n"
      "  the rates of a direction scatter by %s; a node that is slower by less than %s cannot "
      "be detected\n",
      rateText(verdict.bytes_per_s).c_str(),
      report.figures.shares.empty() ? "" : ", scaled to the fastest kind,",
      secondsText(verdict.latency_s).c_str(), report.rounds, report.seconds, measured.size(),
      nodes * (nodes - 1), percent(verdict.scatter).c_str(), percent(verdict.least_loss).c_str());
  for (size_t number = 0; number < report.rails.size(); ++number) {
    const RailReport& rail = report.rails[number];
    text += formatString("  rail %zu (%s) alone: ", number, rail.names.front().c_str());
    if (rail.verdict.bytes_per_s > 0)
      text += formatString("median %s and %s, in %d rounds", rateText(rail.verdict.bytes_per_s).c_str(),
                           secondsText(rail.verdict.latency_s).c_str(), rail.rounds);
    if (!rail.left_out.empty())
      text +=
          (rail.verdict.bytes_per_s > 0 ? "; not measured to the end: " : "not measured: ") + rail.left_out;
    text += "\n";
  }
  return text;
}

// The part of the lost time that a simulation with the slow sides loses, too.
double explainedPart(const CollectiveTime& time) {
  return std::clamp((time.with_slow_s - time.expected_s) / (time.seconds - time.expected_s), 0.0, 1.0);
}

// `slow`: "node5 explains"; `bad`: the nodes that are not good.
std::string collectiveLine(const CollectiveTime& time, const std::string& slow, const std::string& bad) {
  const double reached = time.expected_s / time.seconds;
  std::string text = "  " + time.name + ": " + percent(reached) + " (" + secondsText(time.seconds) + ", " +
                     secondsText(time.expected_s) + " expected)";
  if (time.with_slow_s > 0 && reached < kAsExpected)
    text += "; " + slow + " " + percent(explainedPart(time)) + " of the loss";
  if (time.good_s > 0 && time.good_expected_s > 0)
    text += "; without " + bad + ": " + percent(time.good_expected_s / time.good_s);
  return text + "\n";
}

std::string collectiveLines(const Report& report) {
  const Collectives& all = report.collectives;
  if (!all.left_out.empty()) return "collectives: not measured: " + all.left_out + "\n";
  if (all.times.empty()) return {};
  const std::vector<int> good = goodNodes(report);
  std::vector<int> bad;
  std::set<int> slow;
  for (int node = 0; node < static_cast<int>(report.names.size()); ++node)
    if (!std::binary_search(good.begin(), good.end(), node)) bad.push_back(node);
  for (const Finding& finding : report.verdict.findings)
    if (isSlowNode(report.verdict, finding)) slow.insert(finding.node);
  const std::string slow_names =
      hostListOf(report, {slow.begin(), slow.end()}) + (slow.size() == 1 ? " explains" : " explain");
  std::string text =
      formatString("collectives of %s on rings of all %zu nodes, beside a simulation with the %s:\n",
                   sizeText(all.bytes).c_str(), report.names.size(),
                   report.figures.shares.empty() ? "median rate" : "expected rates");
  for (const CollectiveTime& time : all.times)
    if (time.expected_s > 0) text += collectiveLine(time, slow_names, hostListOf(report, bad));
  return text;
}

std::string lossLines(const std::vector<Loss>& losses, const char* when) {
  std::string text;
  for (const Loss& loss : losses)
    text += "  " +
            (loss.node.empty() ? "the median of all nodes is "
                               : loss.node + (loss.part == Part::kSends ? " sends at " : " receives at ")) +
            percent(loss.share) + " of the rate " + when + "\n";
  return text;
}

std::string baselineLines(const Report& report) {
  if (report.baseline.empty()) return {};
  return "compared with " + report.baseline + ":" +
         (report.losses.empty() ? " nothing has become slower\n" : "\n") + lossLines(report.losses, "then");
}

std::string soakLines(const Report& report) {
  if (!report.soaked) return {};
  double bytes = 0;
  uint64_t wrong = 0;
  for (const Sample& sample : report.figures.samples) {
    bytes += static_cast<double>(sample.bytes);
    wrong += sample.wrong_bytes;
  }
  return formatString("soak: %s compared byte by byte, %llu wrong; %s\n", bytesText(bytes).c_str(),
                      static_cast<unsigned long long>(wrong),
                      report.sunk.empty() ? "no rate sank" : "rates sank:") +
         lossLines(report.sunk, "at the beginning");
}

// Each pair at the first of its nodes that was left out.
std::string reachLines(const Report& report) {
  std::string text;
  std::set<std::pair<std::string, std::string>> said;
  for (const std::string& node : report.left_out) {
    std::vector<std::string> others;
    for (const auto& pair : report.blocked)
      if ((pair.first == node || pair.second == node) && said.insert(pair).second)
        others.push_back(pair.first == node ? pair.second : pair.first);
    if (others.empty()) continue;
    text += "  " + node + " was left out: no connection between it and " + hostList(others) + " came about\n";
  }
  return text.empty() ? "" : text + "    " + kReachAdvice + "\n";
}

std::string nothingLine(const Report& report, bool is_doubtful) {
  if (is_doubtful) return "verdict: nothing is confirmed to be slower than the others\n";
  const bool is_clear = report.verdict.least_loss <= kClearLoss;
  return std::string("verdict: nothing is slower than the others") +
         (is_clear ? "\n" : ", as far as figures that scatter so much can show it\n");
}

}  // namespace

Outcome outcomeOf(const Report& report) {
  if (!report.cut_short.empty()) return Outcome::kIncomplete;
  const auto is_confirmed = [](const auto& one) { return one.confirmed; };
  const bool slow =
      std::any_of(report.verdict.findings.begin(), report.verdict.findings.end(), is_confirmed) ||
      std::any_of(report.verdict.uplinks.begin(), report.verdict.uplinks.end(), is_confirmed);
  return slow || !report.blocked.empty() || !report.losses.empty() || !report.sunk.empty() ? Outcome::kSlow
                                                                                           : Outcome::kGood;
}

std::string verdictText(const Report& report) {
  const Sentences sentences(report);
  const std::string sure = reachLines(report) + sentences.all(true), doubtful = sentences.all(false);
  std::string text = factLines(report) + insideLine(report) + insidePathLines(report) + figureLines(report);
  if (!report.cut_short.empty()) text += "the check ended early: " + report.cut_short + "\n";
  if (!sure.empty()) text += "found:\n" + sure;
  // With fewer rounds than planned every figure is doubtful; the missing nodes are what matters.
  if (!doubtful.empty() && report.missing.empty())
    text += "perhaps, but there are too few measurements to blame it (use a longer --time):\n" + doubtful;
  text += collectiveLines(report) + baselineLines(report) + soakLines(report);
  if (sure.empty() && report.cut_short.empty()) text += nothingLine(report, !doubtful.empty());
  if (report.verdict.bytes_per_s > 0) {
    const std::vector<int> good = goodNodes(report);
    text +=
        formatString("good: %zu of %zu nodes: ", good.size(), report.names.size() + report.left_out.size()) +
        hostListOf(report, good) + "\n";
  }
  return text;
}

}  // namespace horing::check
