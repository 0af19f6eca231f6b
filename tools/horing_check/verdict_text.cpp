// The verdict as a few lines of plain English.
#include <algorithm>
#include <cmath>
#include <set>

#include "common/quantity.h"
#include "horing_check/report.h"

namespace horing::check {

namespace {

std::string rateText(double bytes_per_s) {
  return bytesText(bytes_per_s) + "/s";
}

std::string percent(double share) {
  return formatString("%.0f %%", 100 * share);
}

class Sentences {
 public:
  explicit Sentences(const Report& report) : report_(report) {}

  // One for each node and quantity, one for each path.
  std::string all(bool confirmed) const {
    std::string text;
    const std::vector<Finding>& findings = report_.verdict.findings;
    for (size_t i = 0; i < findings.size(); ++i) {
      if (findings[i].confirmed != confirmed) continue;
      const bool both = i + 1 < findings.size() && isSameNode(findings[i], findings[i + 1]);
      text += "  " + sentence(findings[i], both ? &findings[i + 1] : nullptr) + "\n";
      i += both ? 1 : 0;
    }
    return text;
  }

 private:
  static bool isSameNode(const Finding& a, const Finding& b) {
    return a.part != Part::kPath && b.part != Part::kPath && a.node == b.node && a.quantity == b.quantity &&
           a.confirmed == b.confirmed;
  }
  const std::string& name(int node) const { return report_.names[static_cast<size_t>(node)]; }

  std::string sentence(const Finding& finding, const Finding* receives) const {
    if (finding.part == Part::kPath) return pathSentence(finding);
    if (finding.quantity == Quantity::kRate) return rateSentence(finding, receives);
    if (finding.quantity == Quantity::kLatency)
      return formatString("%s: messages take %.1f times as long as elsewhere (%s; seen with %d partners)",
                          name(finding.node).c_str(), finding.factor,
                          secondsText(finding.factor * report_.verdict.latency_s).c_str(), finding.partners);
    return name(finding.node) +
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
    return name(finding.node) + " " + part(finding) + (receives ? " and " + part(*receives) : "") +
           " of the cluster's rate (" + rateText(finding.factor * report_.verdict.bytes_per_s) +
           formatString("; seen with %d partners): look at its adapter, its cable and the switch's port",
                        finding.partners);
  }

  std::string pathSentence(const Finding& finding) const {
    const std::string ends = name(finding.node) + " to " + name(finding.to);
    const std::string why =
        report_.names.size() == 2
            ? "; two nodes do not tell whose fault it is: add a third"
            : ", though both do better with others: look at the links and switches between them";
    if (finding.quantity == Quantity::kRate)
      return ends + ": " + percent(finding.factor) + " of the cluster's rate (" +
             rateText(finding.factor * report_.verdict.bytes_per_s) + ")" + why;
    if (finding.quantity == Quantity::kLatency)
      return ends + formatString(": messages take %.1f times as long as elsewhere", finding.factor) + why;
    return ends + ": wrong bytes arrive" + why;
  }

  const Report& report_;
};

std::string factLines(const Report& report) {
  std::string text = formatString("facts: %zu compared%s\n", report.facts,
                                  report.differences.empty() ? ", the same on all nodes" : "");
  for (const Difference& difference : report.differences)
    text += "  " + difference.name + ": " + (difference.value.empty() ? "none" : difference.value) + " on " +
            hostListOf(report, difference.nodes) + "; " +
            (difference.usual.empty() ? "none" : difference.usual) + " on most\n";
  return text;
}

std::string figureLines(const Report& report) {
  const Verdict& verdict = report.verdict;
  if (verdict.bytes_per_s == 0) return "between nodes: nothing was measured\n";
  std::set<std::pair<int, int>> measured;
  for (const Sample& sample : report.figures.samples) measured.insert({sample.from, sample.to});
  const size_t nodes = report.names.size();
  return formatString(
      "between nodes: median %s and %s, in %d rounds and %.1f s; %zu of %zu directions measured\n"
      "  the rates of a direction scatter by %s; a node that is slower by less than %s cannot "
      "be detected\n",
      rateText(verdict.bytes_per_s).c_str(), secondsText(verdict.latency_s).c_str(), report.rounds,
      report.seconds, measured.size(), nodes * (nodes - 1), percent(verdict.scatter).c_str(),
      percent(verdict.least_loss).c_str());
}

}  // namespace

Outcome outcomeOf(const Report& report) {
  if (!report.cut_short.empty()) return Outcome::kIncomplete;
  const bool slow = std::any_of(report.verdict.findings.begin(), report.verdict.findings.end(),
                                [](const Finding& finding) { return finding.confirmed; });
  return slow ? Outcome::kSlow : Outcome::kGood;
}

std::string verdictText(const Report& report) {
  const Sentences sentences(report);
  const std::string sure = sentences.all(true), doubtful = sentences.all(false);
  std::string text = factLines(report) + figureLines(report);
  if (!report.cut_short.empty()) text += "the check ended early: " + report.cut_short + "\n";
  if (!sure.empty()) text += "found:\n" + sure;
  if (!doubtful.empty())
    text += "perhaps, but too little was measured to blame it (a longer --time tells):\n" + doubtful;
  if (sure.empty() && report.cut_short.empty())
    text += doubtful.empty() ? "verdict: nothing is slower than the others\n"
                             : "verdict: nothing is confirmed to be slower than the others\n";
  if (report.verdict.bytes_per_s > 0) {
    const std::vector<int> good = goodNodes(report);
    text += formatString("good: %zu of %zu nodes: ", good.size(), report.names.size()) +
            hostListOf(report, good) + "\n";
  }
  return text;
}

}  // namespace horing::check
