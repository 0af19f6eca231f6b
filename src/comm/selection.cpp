#include "comm/selection.h"

#include "base/status.h"

namespace horing {

namespace {

// Measured with 2 to 16 ranks on one node: hops cost more than bytes below these sizes.
constexpr size_t kOneShotMostBytes = 4096;  // of the whole vector
constexpr int kOneShotMostRanks = 4;        // every rank sends to every other: beyond, two hops cost less
constexpr size_t kDirectMostBytesPerPeer = 32768;
constexpr int kDirectMostRanks = 32;

bool knowsGroups(std::string_view algorithm) {
  return algorithm.starts_with("ho_");
}
bool canUseGroups(const GroupMap& map) {
  return map.uniform();
}

// Every rank has a link to every other.
bool directFits(const SelectionGround& ground) {
  const auto ranks = static_cast<uint64_t>(ground.map.ranks());
  return ranks * (ranks - 1) / 2 * ground.link_bytes <= ground.memory_bytes;
}

std::string_view natural(const SelectionGround& ground, Collective collective, size_t bytes) {
  const int ranks = ground.map.ranks();
  // Blocks go straight to the one rank that wants them; sizes that only pairs know leave no choice.
  if (collective == Collective::kGather || collective == Collective::kScatter ||
      collective == Collective::kAllToAll)
    return collective == Collective::kAllToAll ? "pairwise" : "star";
  if (collective == Collective::kBroadcast || collective == Collective::kReduce)
    return ranks <= kOneShotMostRanks && bytes <= kOneShotMostBytes ? "star" : "chain";
  if (ground.map.groups() > 1)
    return canUseGroups(ground.map) && ground.map.largestGroup() > 1 ? "ho_ring" : "ring";
  if (ranks > kDirectMostRanks || !directFits(ground)) return "ring";
  if (collective == Collective::kAllReduce && ranks <= kOneShotMostRanks && bytes <= kOneShotMostBytes)
    return "one_shot";
  return bytes / static_cast<size_t>(ranks) <= kDirectMostBytesPerPeer ? "direct" : "ring";
}

}  // namespace

Selection selectAlgorithm(const SelectionGround& ground, Collective collective, size_t bytes) {
  const GroupMap& map = ground.map;
  std::string_view name = natural(ground, collective, bytes);
  if (const Algorithm* forced = findAlgorithm(ground.config.algorithm); forced && forced->has(collective))
    name = forced->name;
  if (knowsGroups(name) && !canUseGroups(map)) name = "ring";
  // The text outlives the configuration: the catalogue's own.
  name = findAlgorithm(name)->name;
  const Shape flat{1, map.ranks()};
  return {name, knowsGroups(name) ? Shape{map.groups(), map.largestGroup()} : flat};
}

std::string explainFallback(const SelectionGround& ground) {
  const GroupMap& map = ground.map;
  const std::string& wanted = ground.config.algorithm;
  const bool wants_groups = knowsGroups(wanted) || (wanted == "auto" && map.groups() > 1);
  if (wants_groups && !canUseGroups(map))
    return formatString("%s needs groups of one size, here they have %d to %d ranks: ring runs instead",
                        wanted == "auto" ? "ho_ring" : wanted.c_str(), map.smallestGroup(),
                        map.largestGroup());
  if (wanted == "one_shot")
    return "one_shot has only all_reduce: the other collectives choose for themselves";
  if (wanted == "auto" && map.groups() == 1 && map.ranks() <= kDirectMostRanks && !directFits(ground))
    return formatString(
        "shared memory has room for %llu MiB of links and direct exchange would take more: ring runs for "
        "small "
        "messages, too (enlarge HORING_SHM_DIR's file system to change that)",
        static_cast<unsigned long long>(ground.memory_bytes >> 20));
  return {};
}

}  // namespace horing
