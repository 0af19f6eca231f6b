#include "compare.h"

#include <algorithm>
#include <functional>
#include <map>

#include "algorithms/catalogue.h"
#include "common/quantity.h"
#include "outer_ring.h"
#include "selection/model_selection.h"
#include "units.h"

namespace horing {

namespace {

struct Series {
  std::string algorithm;
  double rate = 0;  // 0: the machine's
  std::string name;
  std::map<double, Prediction> at;  // without schedules
  std::string refusal;              // the first reason why it could not run

  bool isSelected() const { return algorithm == kSelected; }
};

std::vector<double> ratesOf(const Comparison& comparison) {
  return comparison.rates.empty() ? std::vector<double>{0} : comparison.rates;
}

std::vector<Series> seriesOf(const Comparison& comparison) {
  std::vector<Series> all;
  for (const double rate : ratesOf(comparison))
    for (const std::string& algorithm : comparison.algorithms) {
      Series& series = all.emplace_back();
      series.algorithm = algorithm;
      series.rate = rate;
      series.name = rate > 0 ? formatString("%s, %g GB/s", algorithm.c_str(), rate) : algorithm;
    }
  return all;
}

Question questionOf(const Comparison& comparison, const Series& series) {
  Question question = comparison.question;
  question.algorithm = series.algorithm;
  if (series.rate > 0) question.machine.between.gbytes_per_s = series.rate;
  return question;
}

void keep(Series& series, double x, const Result<Prediction>& prediction) {
  if (!prediction.ok()) {
    if (series.refusal.empty()) series.refusal = prediction.status().message();
    return;
  }
  series.at[x] = prediction.value();
  series.at[x].schedules.reset();
}

// Of one simulation: algorithms that take longer are not candidates. Some seconds in total.
constexpr int64_t kMostCandidateWork = 20'000'000;

// The selected algorithm at each of `sizes` on this machine.
void fillSelected(const Question& question, const std::vector<uint64_t>& sizes, Series& series,
                  const std::function<double(uint64_t)>& x_of) {
  SelectionQuestion asked;
  asked.question = question;
  asked.question.most_work = kMostCandidateWork;
  asked.question.ranks = Ranks::kOneNodeIfLikely;
  asked.sizes = sizes;
  asked.standing = &SelectionTable::builtIn();
  asked.job = jobOn(question.machine);
  const Result<std::vector<ModelChoice>> choices = chooseByModel(asked, question.collective);
  if (!choices.ok()) return keep(series, 0, choices.status());
  for (const ModelChoice& choice : choices.value()) {
    if (std::find(sizes.begin(), sizes.end(), choice.bytes) == sizes.end()) continue;
    Question chosen = question;
    chosen.algorithm = choice.algorithm->name;
    chosen.bytes = choice.bytes;
    keep(series, x_of(choice.bytes), predict(chosen, Record::kNothing));
  }
}

void fillOverSizes(const Comparison& comparison, Series& series) {
  Question question = questionOf(comparison, series);
  if (series.isSelected())
    return fillSelected(question, comparison.sizes, series,
                        [](uint64_t bytes) { return static_cast<double>(bytes); });
  question.bytes = comparison.sizes.front();
  Result<Prediction> first = predict(question, Record::kNothing);
  keep(series, static_cast<double>(question.bytes), first);
  for (size_t i = 1; i < comparison.sizes.size() && first.ok(); ++i)
    keep(series, static_cast<double>(comparison.sizes[i]),
         predictAgain(first.value(), comparison.sizes[i], Record::kNothing));
}

void fillOverNodes(const Comparison& comparison, Series& series) {
  Question question = questionOf(comparison, series);
  for (const int32_t nodes : comparison.nodes) {
    question.machine.nodes = nodes;
    if (series.isSelected()) {
      fillSelected(question, {question.bytes}, series,
                   [nodes](uint64_t) { return static_cast<double>(nodes); });
    } else {
      keep(series, nodes, predict(question, Record::kNothing));
    }
  }
}

std::string xText(Comparison::Over over, double x) {
  return over == Comparison::Over::kSize ? sizeText(static_cast<uint64_t>(x)) : formatString("%.0f", x);
}

std::vector<double> xsOf(const Comparison& comparison) {
  if (comparison.over == Comparison::Over::kNodes) return {comparison.nodes.begin(), comparison.nodes.end()};
  return {comparison.sizes.begin(), comparison.sizes.end()};
}

// Among series with the same rate: the others are for other machines.
Picoseconds fastestAt(const std::vector<Series>& all, double rate, double x) {
  Picoseconds fastest = INT64_MAX;
  for (const Series& series : all)
    if (const auto found = series.at.find(x); series.rate == rate && found != series.at.end())
      fastest = std::min(fastest, found->second.result.time);
  return fastest;
}

// The node counts at which a property holds.
std::string nodesText(const std::vector<double>& nodes) {
  std::string text;
  for (const double at : nodes) text += formatString("%s%.0f", text.empty() ? "" : ", ", at);
  return text;
}

// At one speed.
struct OuterRing {
  std::string speed;            // empty: the machine's
  std::vector<double> reaches;  // node counts at which nothing limits it but the wire
  std::vector<double>
      waits;  // node counts limited by rows inside nodes, though one row takes less than a hop
  double left_at =
      0;  // the first node count at which the selected algorithm has another outer pattern; 0: none
  std::string left_for;
  bool is_selected = false;  // whether kSelected is among the series
};

OuterRing outerRingAt(const std::vector<Series>& all, double rate) {
  OuterRing found;
  if (rate > 0) found.speed = formatString("%g GB/s", rate);
  std::map<double, const Prediction*> any;  // the machine of each point, whatever ran
  for (const Series& series : all)
    for (const auto& [x, prediction] : series.at)
      if (series.rate == rate) {
        any[x] = &prediction;
        found.is_selected = found.is_selected || series.isSelected();
        if (!series.isSelected() || found.left_at > 0 || hasOuterRing(prediction.question.algorithm))
          continue;
        found.left_at = x;
        found.left_for = prediction.question.algorithm;
      }
  for (const auto& [x, prediction] : any) {
    const RingLimit limit = ringLimit(prediction->question, prediction->bound);
    if (limit == RingLimit::kNone) found.reaches.push_back(x);
    if (limit == RingLimit::kInside && rowIsBelowHop(prediction->question)) found.waits.push_back(x);
  }
  return found;
}

// The least efficiency of each outer-ring series at these node counts.
std::string efficienciesAt(const std::vector<Series>& all, double rate, const std::vector<double>& nodes) {
  std::string text;
  for (const Series& series : all) {
    if (series.rate != rate || !hasOuterRing(series.algorithm)) continue;
    double worst = 0;
    for (const double at : nodes)
      if (const auto found = series.at.find(at); found != series.at.end())
        worst = std::max(worst, found->second.overBound());
    if (worst > 0) text += formatString(", %s >= %.3f", series.algorithm.c_str(), 1 / worst);
  }
  return text;
}

std::string outerRingText(const std::vector<Series>& all, const std::vector<double>& rates) {
  std::string text = formatString(
      "# The outer ring should be at %g of the wire or above where all latencies between nodes are below %g "
      "%% of the wire time\n"
      "# and M rows inside a node take less than M-1 hops:\n",
      kRingGoal, 100 * kMostLatency);
  for (const double rate : rates) {
    const OuterRing ring = outerRingAt(all, rate);
    const std::string speed = ring.speed.empty() ? "" : ring.speed + ": ";
    text += "# " + speed + (ring.reaches.empty() ? "nowhere" : "on " + nodesText(ring.reaches) + " nodes") +
            efficienciesAt(all, rate, ring.reaches) + "\n";
    if (!ring.waits.empty())
      text += "# " + speed + "not on " + nodesText(ring.waits) +
              ", where one row takes less than a hop but M rows more than M-1 hops" +
              efficienciesAt(all, rate, ring.waits) + "\n";
    if (ring.is_selected && ring.left_at == 0)
      text += "# " + speed + "selection keeps the outer ring everywhere here\n";
    if (ring.left_at > 0)
      text += formatString("# %sselection leaves the outer ring at %.0f nodes, for %s\n", speed.c_str(),
                           ring.left_at, ring.left_for.c_str());
  }
  return text;
}

std::string cellOf(const std::vector<Series>& all, const Series& series, double x) {
  const auto found = series.at.find(x);
  if (found == series.at.end())
    return formatString("  %22s%s", "-", series.isSelected() ? "                  " : "");
  const Prediction& prediction = found->second;
  const bool is_fastest = prediction.result.time == fastestAt(all, series.rate, x);
  std::string text = formatString("  %12s %8.3f%c", timeText(prediction.result.time).c_str(),
                                  prediction.overBound(), is_fastest ? '*' : ' ');
  if (series.isSelected()) text += formatString(" %-17s", prediction.question.algorithm.c_str());
  return text;
}

std::string tableOf(const Comparison& comparison, const std::vector<Series>& all) {
  const bool is_size = comparison.over == Comparison::Over::kSize;
  std::string text =
      formatString("# %s, time and time / wire bound; * is the fastest%s\n%-12s %10s",
                   collectiveName(comparison.question.collective),
                   comparison.rates.size() > 1 ? " at its speed" : "", is_size ? "bytes" : "nodes", "bound");
  for (const Series& series : all)
    text += formatString("  %22s%s", series.name.c_str(), series.isSelected() ? "                  " : "");
  text += "\n";
  for (const double x : xsOf(comparison)) {
    Picoseconds bound = 0;
    for (const Series& series : all)
      if (const auto found = series.at.find(x); found != series.at.end()) bound = found->second.bound;
    text += formatString("%-12s %10s", xText(comparison.over, x).c_str(),
                         comparison.rates.size() > 1 ? "" : timeText(bound).c_str());
    for (const Series& series : all) text += cellOf(all, series, x);
    text += "\n";
  }
  for (const Series& series : all)
    if (!series.refusal.empty())
      text += formatString("# - %s: %s\n", series.name.c_str(), series.refusal.c_str());
  return is_size ? text : text + outerRingText(all, ratesOf(comparison));
}

std::string csvOf(const std::vector<Series>& all) {
  std::string text = "collective,algorithm,nodes,ranks_per_node,inter_gbytes_per_s,bytes,time_us,bound_us\n";
  for (const Series& series : all)
    for (const auto& [x, prediction] : series.at) {
      const Question& question = prediction.question;
      const std::string name = (series.isSelected() ? "selected:" : "") + question.algorithm;
      text +=
          formatString("%s,%s,%d,%d,%g,%llu,%.6f,%.6f\n", collectiveName(question.collective), name.c_str(),
                       question.machine.nodes, question.machine.ranks_per_node,
                       question.machine.between.gbytes_per_s, static_cast<unsigned long long>(question.bytes),
                       toMicroseconds(prediction.result.time), toMicroseconds(prediction.bound));
    }
  return text;
}

std::string machineNote(const MachineModel& machine, const std::vector<double>& rates) {
  const std::string rate = rates.empty() ? formatString(", %g GB/s for each %s", machine.between.gbytes_per_s,
                                                        machine.nic == Owner::kRank ? "rank" : "node")
                                         : "";
  return formatString("%g us%s between nodes; %g us, %g GB/s inside", machine.between.latency_us,
                      rate.c_str(), machine.inside.latency_us, machine.inside.gbytes_per_s);
}

// The node counts at which the outer ring should reach the wire bound, and at which the selection leaves it.
std::vector<Span> spansOf(const std::vector<Series>& all, const std::vector<double>& rates) {
  std::vector<Span> spans;
  for (const double rate : rates) {
    const OuterRing ring = outerRingAt(all, rate);
    const std::string speed = ring.speed.empty() ? "" : ring.speed + ": ";
    const bool is_dashed = rate != rates[0];
    if (ring.reaches.size() > 1)
      spans.push_back({ring.reaches.front(), ring.reaches.back(),
                       formatString("%sthe ring is to be at %g or above", speed.c_str(), kRingGoal),
                       is_dashed});
    if (ring.left_at > 0)
      spans.push_back({ring.left_at, ring.left_at,
                       formatString("%s%s selected", speed.c_str(), ring.left_for.c_str()), is_dashed});
  }
  return spans;
}

Chart chartOf(const Comparison& comparison, const std::vector<Series>& all) {
  const bool is_size = comparison.over == Comparison::Over::kSize;
  const MachineModel& machine = comparison.question.machine;
  Chart chart;
  chart.title = std::string(collectiveName(comparison.question.collective)) +
                (is_size ? " on " + shapeText(machine)
                         : formatString(" of %s, %d ranks in each node",
                                        sizeText(comparison.question.bytes).c_str(), machine.ranks_per_node));
  chart.notes = {
      machineNote(machine, comparison.rates) +
      formatString("; slices of %s at most, windows of %d",
                   sizeText(comparison.question.pipelining.slice_bytes).c_str(),
                   comparison.question.pipelining.window) +
      (comparison.rates.size() > 1 ? "; circles: the fastest at that speed" : "; circles: the fastest")};
  chart.x_name = is_size ? "bytes of the vector" : "nodes";
  chart.y_name = is_size ? "time, us" : "efficiency: wire bound / time";
  chart.x_text = [over = comparison.over](double x) { return xText(over, x); };
  chart.y_is_logarithmic = is_size;
  if (!is_size) chart.y_most = 1.05;
  // A colour for each algorithm; of several speeds the first has whole lines.
  for (const Series& series : all) {
    Curve& curve = chart.curves.emplace_back(Curve{series.name, {}});
    curve.colour = (chart.curves.size() - 1) % comparison.algorithms.size();
    curve.is_dashed = series.rate != all[0].rate;
    curve.is_wide = series.isSelected();
    std::string last;
    for (const auto& [x, prediction] : series.at) {
      curve.points.push_back(
          {x, is_size ? toMicroseconds(prediction.result.time) : 1 / std::max(prediction.overBound(), 1e-9)});
      const std::string& name = prediction.question.algorithm;
      if (series.isSelected() && name != last) curve.labels.push_back({x, name});
      last = name;
      if (series.isSelected()) continue;
      if (prediction.result.time == fastestAt(all, series.rate, x)) curve.circled.push_back(x);
    }
  }
  if (!is_size) {
    chart.spans = spansOf(all, ratesOf(comparison));
    chart.notes.push_back(
        formatString("bar: latencies between nodes are below %g %% of the wire time, and M rows inside take "
                     "less than M-1 hops",
                     100 * kMostLatency));
  }
  return chart;
}

}  // namespace

Result<ComparisonReport> compare(const Comparison& comparison) {
  std::vector<Series> all = seriesOf(comparison);
  for (Series& series : all) {
    if (!series.isSelected() && !findAlgorithm(series.algorithm))
      return makeStatus(Code::kInvalidArgument, "there is no algorithm '%s'; see 'horing-plan list'",
                        series.algorithm.c_str());
    if (comparison.over == Comparison::Over::kSize) {
      fillOverSizes(comparison, series);
    } else {
      fillOverNodes(comparison, series);
    }
    if (series.at.empty())
      return makeStatus(Code::kInvalidArgument, "%s can run nowhere here: %s", series.algorithm.c_str(),
                        series.refusal.c_str());
  }
  return ComparisonReport{tableOf(comparison, all), csvOf(all), chartOf(comparison, all)};
}

}  // namespace horing
