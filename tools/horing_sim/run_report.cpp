#include "run_report.h"

#include <algorithm>

#include "common/quantity.h"
#include "sim/critical_path.h"
#include "units.h"

namespace horing {

namespace {

constexpr size_t kShownStretches = 12;

double percent(Picoseconds part, Picoseconds whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string headline(const Prediction& p) {
  const Question& q = p.question;
  std::string text =
      formatString("%s %s of %s on %s: %s\n", q.algorithm.c_str(), collectiveName(q.collective),
                   sizeText(q.bytes).c_str(), shapeText(q.machine).c_str(), timeText(p.result.time).c_str());
  if (p.bound > 0)
    text += formatString("  wire bound %s, time / bound %.3f\n", timeText(p.bound).c_str(), p.overBound());
  const Picoseconds time = std::max<Picoseconds>(p.result.time, 1);
  text += formatString("  %.4g GB/s of the vector; %lld slices for each chunk in windows of %d\n",
                       static_cast<double>(q.bytes) * 1000 / static_cast<double>(time),
                       static_cast<long long>(p.result.slices_per_chunk), p.result.window);
  text += formatString("  simulated: %s, %lld slices, %lld messages\n",
                       p.folding.folds() ? "one node, for all do the same" : "every rank",
                       static_cast<long long>(p.result.slices), static_cast<long long>(p.result.messages));
  return text;
}

std::string usageTable(const SimulationResult& result) {
  if (result.usages.empty()) return "";
  std::string text = "\n              number    busy  busiest\n";
  for (const Usage& usage : result.usages)
    text += formatString("  %-10s %8d %6.1f%% %7.1f%%\n", usage.name.c_str(), usage.count, 100 * usage.mean,
                         100 * usage.busiest);
  return text;
}

// Consecutive segments of the path with the same lane number, on any ranks.
struct Stretch {
  int32_t lane = 0;
  bool crosses = false;
  int32_t first_step = 0, last_step = 0, first_position = 0, last_position = 0, messages = 0;
  Picoseconds begin = 0, end = 0;
};

std::vector<Stretch> stretchesOf(const std::vector<PathSegment>& path, const SimulationResult& result,
                                 const FoldedNetwork& network) {
  std::vector<Stretch> stretches;
  for (const PathSegment& segment : path) {
    const SliceRecord& slice = result.slice_records[static_cast<size_t>(segment.slice)];
    const int32_t lane = network.laneOf(slice.lane_id), position = network.positionOf(slice.lane_id);
    if (stretches.empty() || stretches.back().lane != lane)
      stretches.push_back({lane, false, slice.step, slice.step, position, position, 0, segment.begin, 0});
    Stretch& last = stretches.back();
    last.last_step = slice.step;
    last.last_position = position;
    last.end = segment.end;
    last.crosses = last.crosses || segment.crosses_nodes;
    last.messages += segment.kind == PathSegment::Kind::kLine;
  }
  return stretches;
}

std::string stretchText(const Stretch& stretch) {
  return formatString("  %10s  lane %d, %s: steps %d to %d, positions %d to %d, %d messages, %s\n",
                      timeText(stretch.begin).c_str(), stretch.lane,
                      stretch.crosses ? "between nodes" : "inside a node", stretch.first_step,
                      stretch.last_step, stretch.first_position, stretch.last_position, stretch.messages,
                      timeText(stretch.end - stretch.begin).c_str());
}

std::string pathText(const std::vector<PathSegment>& path, const Prediction& p,
                     const FoldedNetwork& network) {
  std::string text = "\nCritical path: the chain of waits, from the end back to the start\n";
  for (const PathShare& share : pathShares(path))
    text += formatString("  %5.1f%%  %10s  %s (%d)\n", percent(share.time, p.result.time),
                         timeText(share.time).c_str(), share.name.c_str(), share.segments);
  const std::vector<Stretch> stretches = stretchesOf(path, p.result, network);
  text += formatString("It passes (from the beginning%s):\n",
                       p.folding.folds() ? "; positions are those of the node that represents all" : "");
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (stretches.size() > kShownStretches && i == kShownStretches / 2) {
      text += formatString("  ... %zu more, to and fro between these lanes ...\n",
                           stretches.size() - kShownStretches);
      i = stretches.size() - kShownStretches / 2;
    }
    text += stretchText(stretches[i]);
  }
  return text;
}

}  // namespace

Result<std::string> reportRun(const Prediction& prediction) {
  std::string text = headline(prediction) + usageTable(prediction.result);
  if (prediction.result.slice_records.empty()) return text;
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(*prediction.schedules, prediction.folding));
  return text + pathText(criticalPath(prediction.result, network), prediction, network);
}

}  // namespace horing
