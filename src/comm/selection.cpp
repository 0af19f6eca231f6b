#include "comm/selection.h"

#include "base/status.h"

namespace horing {

namespace {

// Measured on one node (bench/README.md, "Crossovers"): hops cost more than bytes below these sizes.
constexpr size_t kOneShotMostBytes = 4096;  // of the whole vector
constexpr int kOneShotMostRanks = 4;        // every rank sends to every other: beyond, two hops cost less
constexpr size_t kDirectMostBytesPerPeer = 32768;
constexpr int kDirectMostRanks = 32;

bool knowsGroups(std::string_view algorithm) {
  return algorithm.starts_with("ho_ring");
}
bool canUseGroups(const GroupMap& map) {
  return map.uniform();
}

std::string_view natural(const GroupMap& map, Collective collective, size_t bytes) {
  const int ranks = map.ranks();
  if (map.groups() > 1) return canUseGroups(map) && map.largestGroup() > 1 ? "ho_ring" : "ring";
  if (ranks > kDirectMostRanks) return "ring";
  if (collective == Collective::kAllReduce && ranks <= kOneShotMostRanks && bytes <= kOneShotMostBytes)
    return "one_shot";
  return bytes / static_cast<size_t>(ranks) <= kDirectMostBytesPerPeer ? "direct" : "ring";
}

}  // namespace

Selection selectAlgorithm(const Config& config, const GroupMap& map, Collective collective, size_t bytes) {
  std::string_view name = natural(map, collective, bytes);
  if (const Algorithm* forced = findAlgorithm(config.algorithm); forced && forced->has(collective))
    name = forced->name;
  if (knowsGroups(name) && !canUseGroups(map)) name = "ring";
  // The text outlives the configuration: the catalogue's own.
  name = findAlgorithm(name)->name;
  const Shape flat{1, map.ranks()};
  return {name, knowsGroups(name) ? Shape{map.groups(), map.largestGroup()} : flat};
}

std::string explainFallback(const Config& config, const GroupMap& map) {
  const bool wants_groups = knowsGroups(config.algorithm) || (config.algorithm == "auto" && map.groups() > 1);
  if (wants_groups && !canUseGroups(map))
    return formatString("ho_ring needs groups of one size, here they have %d to %d ranks: ring runs instead",
                        map.smallestGroup(), map.largestGroup());
  if (config.algorithm == "one_shot")
    return "one_shot has only all_reduce: the other collectives choose for themselves";
  return {};
}

}  // namespace horing
