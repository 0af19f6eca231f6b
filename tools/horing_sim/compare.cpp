#include "compare.h"

#include <algorithm>
#include <map>

#include "algorithms/catalogue.h"
#include "quantity.h"
#include "units.h"

namespace horing {

namespace {

struct Series {
  std::string algorithm;
  double rate = 0;  // 0: the machine's
  std::string name;
  std::map<double, Prediction> at;  // without schedules
  std::string refusal;              // why it could not run, the first time
};

std::vector<Series> seriesOf(const Comparison& comparison) {
  std::vector<Series> all;
  const std::vector<double> rates = comparison.rates.empty() ? std::vector<double>{0} : comparison.rates;
  for (const double rate : rates)
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

void fillOverSizes(const Comparison& comparison, Series& series) {
  Question question = questionOf(comparison, series);
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
    keep(series, nodes, predict(question, Record::kNothing));
  }
}

std::string xText(Comparison::Over over, double x) {
  return over == Comparison::Over::kSize ? sizeText(static_cast<uint64_t>(x)) : formatString("%.0f", x);
}

std::vector<double> xsOf(const Comparison& comparison) {
  if (comparison.over == Comparison::Over::kNodes) return {comparison.nodes.begin(), comparison.nodes.end()};
  return {comparison.sizes.begin(), comparison.sizes.end()};
}

// Of those at one speed: the others are of another machine.
Picoseconds fastestAt(const std::vector<Series>& all, double rate, double x) {
  Picoseconds fastest = INT64_MAX;
  for (const Series& series : all)
    if (const auto found = series.at.find(x); series.rate == rate && found != series.at.end())
      fastest = std::min(fastest, found->second.result.time);
  return fastest;
}

std::string tableOf(const Comparison& comparison, const std::vector<Series>& all) {
  const bool is_size = comparison.over == Comparison::Over::kSize;
  std::string text =
      formatString("# %s, time and time / wire bound; * is the fastest%s\n%-12s %10s",
                   collectiveName(comparison.question.collective),
                   comparison.rates.size() > 1 ? " at its speed" : "", is_size ? "bytes" : "nodes", "bound");
  for (const Series& series : all) text += formatString("  %22s", series.name.c_str());
  text += "\n";
  for (const double x : xsOf(comparison)) {
    Picoseconds bound = 0;
    for (const Series& series : all)
      if (const auto found = series.at.find(x); found != series.at.end()) bound = found->second.bound;
    text += formatString("%-12s %10s", xText(comparison.over, x).c_str(),
                         comparison.rates.size() > 1 ? "" : timeText(bound).c_str());
    for (const Series& series : all) {
      const auto found = series.at.find(x);
      if (found == series.at.end()) {
        text += formatString("  %22s", "-");
        continue;
      }
      text += formatString("  %12s %8.3f%c", timeText(found->second.result.time).c_str(),
                           found->second.overBound(),
                           found->second.result.time == fastestAt(all, series.rate, x) ? '*' : ' ');
    }
    text += "\n";
  }
  for (const Series& series : all)
    if (!series.refusal.empty())
      text += formatString("# - %s: %s\n", series.name.c_str(), series.refusal.c_str());
  return text;
}

std::string csvOf(const std::vector<Series>& all) {
  std::string text = "collective,algorithm,nodes,ranks_per_node,inter_gbytes_per_s,bytes,time_us,bound_us\n";
  for (const Series& series : all)
    for (const auto& [x, prediction] : series.at) {
      const Question& question = prediction.question;
      text +=
          formatString("%s,%s,%d,%d,%g,%llu,%.6f,%.6f\n", collectiveName(question.collective),
                       question.algorithm.c_str(), question.machine.nodes, question.machine.ranks_per_node,
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

Chart chartOf(const Comparison& comparison, const std::vector<Series>& all) {
  const bool is_size = comparison.over == Comparison::Over::kSize;
  const MachineModel& machine = comparison.question.machine;
  Chart chart;
  chart.title = std::string(collectiveName(comparison.question.collective)) +
                (is_size ? formatString(" on %d x %d ranks", machine.nodes, machine.ranks_per_node)
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
    for (const auto& [x, prediction] : series.at) {
      curve.points.push_back(
          {x, is_size ? toMicroseconds(prediction.result.time) : 1 / std::max(prediction.overBound(), 1e-9)});
      if (prediction.result.time == fastestAt(all, series.rate, x)) curve.circled.push_back(x);
    }
  }
  return chart;
}

}  // namespace

Result<ComparisonReport> compare(const Comparison& comparison) {
  std::vector<Series> all = seriesOf(comparison);
  for (Series& series : all) {
    if (!findAlgorithm(series.algorithm))
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

namespace {

// What the paper does not say: how many NICs the rings of a node use. A ring on each of eight NICs is one ring over a NIC that is
// eight times as fast.
struct PaperCase {
  const char* name;
  double gbytes_per_s;
};
constexpr PaperCase kPaperCases[] = {{"1 NIC", 12.5}, {"8 NICs", 100}};

// The third case: hops in lockstep, each with its cost besides the bytes, in which its line is idle.
constexpr double kLockstepUs = 25;
constexpr const char* kLockstepName = "lockstep, 25 us";

constexpr const char* kPaperHead =
    "# All-gather of 1 GB on nodes of 8 GPUs: how much more bandwidth ho_ring has than ring, in %.\n"
    "# Published: 25.2 to 39.7 on 16 to 128 A100 (arXiv 2310.06003 v2); headlines 32.6 (v1) and 36.5 (v2).\n"
    "# Model: 2400 Gbit/s and 2 us between the GPUs of a node; 100 Gbit/s for a NIC and 5 us between nodes.\n"
    "# 'bytes' is what the slow bytes saved are worth: (n-1)/(m(M-1)) - 1. 'lockstep' is not simulated but "
    "the closed form of\n"
    "# hops that do not overlap, 8 NICs: n-1 of them for the ring, M-1 and one row inside a node for "
    "ho_ring.\n";
constexpr const char* kPaperFoot =
    "# Bytes gain less and less as nodes are added, and a ring that is cut into slices hides its latency: so "
    "do the simulated\n"
    "# columns. The published gain does not fall. A cost for each hop explains that, for a ring has n-1 slow "
    "hops and ho_ring\n"
    "# M-1: with 25 us the closed form has 23 to 32 from 4 nodes on. On 2 nodes any model gains more than "
    "was\n"
    "# published: it overlaps what is inside a node with what is between nodes; the authors' released code "
    "does not.\n";

double lockstepGain(double nodes, double bytes) {
  constexpr double kMembers = 8;
  const double ranks = nodes * kMembers, chunk = bytes / ranks;
  const double ring_hop = kLockstepUs + chunk / 100e3, rail_hop = kLockstepUs + chunk / 12.5e3;
  const double row = (kMembers - 1) * (2 + chunk / 300e3);
  const double ho_ring = (nodes - 1) * std::max(rail_hop, row) + row;
  return 100 * ((ranks - 1) * ring_hop / ho_ring - 1);
}

Result<double> gainOf(Question question, const PaperCase& paper_case) {
  question.machine.between = {5, paper_case.gbytes_per_s, 0, 0};
  question.algorithm = "ring";
  HORING_ASSIGN(const Prediction ring, predict(question, Record::kNothing));
  question.algorithm = "ho_ring";
  HORING_ASSIGN(const Prediction ho_ring, predict(question, Record::kNothing));
  return 100 * (static_cast<double>(ring.result.time) / static_cast<double>(ho_ring.result.time) - 1);
}

Chart paperChart(std::vector<Curve> curves) {
  Chart chart;
  chart.title = "ho_ring against ring: all-gather of 1 GB, 8 GPUs in each node";
  chart.notes = {"100 Gbit/s for a NIC and 5 us between nodes; 2400 Gbit/s and 2 us inside"};
  chart.x_name = "nodes";
  chart.y_name = "more bandwidth than ring, %";
  chart.x_text = [](double x) { return formatString("%.0f", x); };
  chart.curves = std::move(curves);
  chart.band_least = 25.2;
  chart.band_most = 39.7;
  chart.band_name = "published: 25.2 to 39.7 %";
  return chart;
}

}  // namespace

Result<ComparisonReport> compareWithPaper(const Pipelining& pipelining) {
  Question question;
  question.collective = Collective::kAllGather;
  question.bytes = 1'000'000'000;
  question.pipelining = pipelining;
  question.machine.nic = Owner::kNode;
  question.machine.inside = {2, 300, 0, 0};
  std::vector<Curve> curves = {{"bytes alone", {}}};
  std::string table = std::string(kPaperHead) + "nodes  GPUs    bytes";
  for (const PaperCase& paper_case : kPaperCases) {
    curves.push_back({paper_case.name, {}});
    table += formatString("  %13s", paper_case.name);
  }
  curves.push_back({kLockstepName, {}});
  table += formatString("  %15s     published\n", kLockstepName);
  for (size_t c = 0; c < curves.size(); ++c) curves[c].colour = c;
  for (const int32_t nodes : {2, 4, 8, 16}) {
    question.machine.nodes = nodes;
    const double bytes_alone = 100 * ((nodes * 8 - 1) / (8.0 * (nodes - 1)) - 1);
    curves[0].points.push_back({nodes, bytes_alone});
    table += formatString("%5d  %4d  %7.1f", nodes, nodes * 8, bytes_alone);
    for (size_t c = 1; c <= std::size(kPaperCases); ++c) {
      HORING_ASSIGN(const double gain, gainOf(question, kPaperCases[c - 1]));
      curves[c].points.push_back({nodes, gain});
      table += formatString("  %13.1f", gain);
    }
    const double lockstep = lockstepGain(nodes, static_cast<double>(question.bytes));
    curves.back().points.push_back({nodes, lockstep});
    table += formatString("  %15.1f  25.2 to 39.7\n", lockstep);
  }
  std::string csv = "nodes,case,gain_percent\n";
  for (const Curve& curve : curves)
    for (const auto& [nodes, gain] : curve.points)
      csv += formatString("%.0f,%s,%.2f\n", nodes, curve.name.c_str(), gain);
  return ComparisonReport{table + kPaperFoot, csv, paperChart(std::move(curves))};
}

}  // namespace horing
