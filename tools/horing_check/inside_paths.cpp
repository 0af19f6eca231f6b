#include "horing_check/inside_paths.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/number.h"
#include "base/printable.h"
#include "horing_check/gpu_paths.h"
#include "horing_check/numa_paths.h"

namespace horing::check {

namespace {

constexpr size_t kMostPathLetters = 200;
constexpr char kField = '\t';
// With fewer paths of a kind it is not known how much they differ.
constexpr size_t kLeastPaths = 3;
// The logarithm of a loss that counts, and deviations from what is usual.
constexpr double kLeastPathLoss = 0.22, kPathsDeviations = 6, kDeviationsOfPathMad = 1.4826;
// A part is named if so many of its paths are slow, and this share of them.
constexpr int kLeastSlowPaths = 2;
constexpr double kMostlySlow = 0.75;

struct PathOfNode {
  int node = 0;
  const InsidePath* path = nullptr;
};
using OfKind =
    std::map<std::pair<std::string, std::string>, std::vector<PathOfNode>>;  // by processor and kind

// Of two middle values the better one.
double middle(std::vector<double> values) {
  const auto at = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// By path the share of the usual rate, for slow ones.
std::map<const InsidePath*, double> slowOnes(const std::vector<PathOfNode>& places) {
  std::vector<double> values, off;
  for (const PathOfNode& place : places)
    if (place.path->bytes_per_s > 0) values.push_back(std::log(place.path->bytes_per_s));
  std::map<const InsidePath*, double> slow;
  if (values.size() < kLeastPaths) return slow;
  const double usual = middle(values);
  for (const double value : values) off.push_back(std::abs(value - usual));
  const double threshold = std::max(kLeastPathLoss, kPathsDeviations * kDeviationsOfPathMad * middle(off));
  for (const PathOfNode& place : places)
    if (const double rate = place.path->bytes_per_s; rate > 0 && usual - std::log(rate) > threshold)
      slow[place.path] = std::exp(std::log(rate) - usual);
  return slow;
}

Finding findingOf(Quantity quantity, int node, double factor, int paths, bool confirmed, std::string what) {
  Finding finding{quantity, Part::kInside, node, -1, factor, paths, confirmed};
  finding.what = std::move(what);
  return finding;
}

std::string nameOf(const InsidePath& path) {
  return path.from + " to " + path.to;
}

// Of one node and kind. First the parts whose paths are slow, the one with the most first.
void addSlow(int node, const std::string& kind, std::vector<const InsidePath*> paths,
             const std::map<const InsidePath*, double>& slow, bool confirmed,
             std::vector<Finding>& findings) {
  for (;;) {
    std::map<std::string, std::pair<int, int>> parts;  // slow paths, and all
    for (const InsidePath* path : paths)
      for (const std::string* end : {&path->from, &path->to}) {
        parts[*end].first += slow.contains(path) ? 1 : 0;
        ++parts[*end].second;
      }
    const auto worst =
        std::ranges::max_element(parts, {}, [](const auto& part) { return part.second.first; });
    if (worst == parts.end()) return;
    const auto& [name, counts] = *worst;
    // With two parts either may be the slow one, or what joins them.
    if (parts.size() < 3 || counts.first < kLeastSlowPaths || counts.first < kMostlySlow * counts.second)
      break;
    const auto touches = [name = name](const InsidePath* path) {
      return path->from == name || path->to == name;
    };
    double factor = 1;
    for (const InsidePath* path : paths)
      if (const auto found = slow.find(path); found != slow.end() && touches(path))
        factor = std::min(factor, found->second);
    findings.push_back(
        findingOf(Quantity::kInsidePath, node, factor, counts.first, confirmed, name + " (" + kind + ")"));
    std::erase_if(paths, touches);
  }
  for (const InsidePath* path : paths)
    if (const auto found = slow.find(path); found != slow.end())
      findings.push_back(findingOf(Quantity::kInsidePath, node, found->second, 1, confirmed,
                                   nameOf(*path) + " (" + kind + ")"));
}

InsidePaths measureOwn(const Result<MachineGraph>& graph, std::chrono::steady_clock::time_point latest) {
  InsidePaths own;
  if (!graph.ok()) {
    own.left_out = graph.status().message();
    return own;
  }
  own = numaPaths(graph.value(), latest);
  const Status gpus = addGpuPaths(graph.value(), latest, own.all);
  if (!gpus.ok()) own.left_out = gpus.message();
  return own;
}

}  // namespace

std::string pathsToText(const InsidePaths& paths) {
  std::string text = printable(paths.left_out, kMostPathLetters) + "\n";
  for (const InsidePath& path : paths.all) {
    for (const std::string* part : {&path.kind, &path.from, &path.to})
      text += printable(*part, kMostPathLetters) + kField;
    text += formatString("%.6g", path.bytes_per_s) + kField + (path.is_wrong ? "1" : "0") + "\n";
  }
  return text;
}

InsidePaths pathsFromText(const std::string& text) {
  std::istringstream lines(text);
  InsidePaths paths;
  std::string line;
  std::getline(lines, line);
  paths.left_out = printable(line, kMostPathLetters);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    InsidePath path;
    std::string rate, wrong;
    for (std::string* const part : {&path.kind, &path.from, &path.to, &rate, &wrong})
      if (!std::getline(fields, *part, kField)) return paths;
    for (std::string* const part : {&path.kind, &path.from, &path.to})
      *part = printable(*part, kMostPathLetters);
    const double bytes_per_s = numberOf<double>(rate).value_or(0);
    path.bytes_per_s = std::isfinite(bytes_per_s) ? bytes_per_s : 0;
    path.is_wrong = wrong == "1";
    paths.all.push_back(std::move(path));
  }
  return paths;
}

void keepBest(InsidePaths& best, const InsidePaths& again) {
  std::map<std::tuple<std::string, std::string, std::string>, InsidePath*> known;
  for (InsidePath& path : best.all) known[{path.kind, path.from, path.to}] = &path;
  std::vector<InsidePath> added;
  for (const InsidePath& path : again.all) {
    const auto found = known.find({path.kind, path.from, path.to});
    if (found == known.end()) {
      added.push_back(path);
      continue;
    }
    found->second->bytes_per_s = std::max(found->second->bytes_per_s, path.bytes_per_s);
    found->second->is_wrong |= path.is_wrong;
  }
  best.all.insert(best.all.end(), added.begin(), added.end());
  // Not of a measurement that was complete.
  if (known.empty() || again.left_out.empty() || !best.left_out.empty()) best.left_out = again.left_out;
}

std::vector<Finding> comparePaths(const std::vector<InsidePaths>& of_nodes,
                                  const std::vector<std::string>& processors, bool confirmed) {
  OfKind of_kind;
  std::vector<Finding> findings;
  for (size_t node = 0; node < of_nodes.size(); ++node)
    for (const InsidePath& path : of_nodes[node].all) {
      of_kind[{processors[node], path.kind}].push_back({static_cast<int>(node), &path});
      if (path.is_wrong)
        findings.push_back(findingOf(Quantity::kData, static_cast<int>(node), 1, 1, true, nameOf(path)));
    }
  for (const auto& [kind, places] : of_kind) {
    const std::map<const InsidePath*, double> slow = slowOnes(places);
    std::map<int, std::vector<const InsidePath*>> by_node;
    for (const PathOfNode& place : places) by_node[place.node].push_back(place.path);
    for (const auto& [node, paths] : by_node) addSlow(node, kind.second, paths, slow, confirmed, findings);
  }
  return findings;
}

Status InsidePathMeter::measure(Nodes& nodes, const std::vector<std::string>& processors,
                                const Result<MachineGraph>& graph,
                                std::chrono::steady_clock::time_point latest) {
  processors_ = processors;
  const std::string mine = pathsToText(measureOwn(graph, latest));
  HORING_ASSIGN(const std::vector<std::string> texts, nodes.gatherTexts(mine));
  paths_.resize(texts.size());
  for (size_t node = 0; node < texts.size(); ++node) keepBest(paths_[node], pathsFromText(texts[node]));
  ++times_;
  return {};
}

}  // namespace horing::check
