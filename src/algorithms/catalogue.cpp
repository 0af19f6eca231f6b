#include "algorithms/catalogue.h"

#include <algorithm>

#include "schedule/postcondition.h"

namespace horing {

namespace {

// For all-to-all, which has a chunk for each pair.
constexpr int32_t kMostRanksOfPairs = 46340;
static_assert(int64_t{kMostRanksOfPairs} * kMostRanksOfPairs <= INT32_MAX);

// Collectives in which every rank has the same part.
bool hasSymmetric(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kAllGather;
}
// Collectives whose whole result every rank gets.
bool hasGathered(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather;
}
bool hasTree(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}
bool hasStar(Collective collective) {
  return collective == Collective::kAllReduce || hasRoot(collective);
}
bool hasAllToAll(Collective collective) {
  return collective == Collective::kAllToAll;
}
bool hasFold(Collective collective) {
  return contractOf(collective).folds();
}
bool hasAllReduce(Collective collective) {
  return collective == Collective::kAllReduce;
}

constexpr bool kAnySizes = true, kTakesShares = true, kTakesSpeed = true;

// If two algorithms have the same schedule on some shape, the first one is reported: the one without groups.
constexpr Algorithm kCatalogue[] = {
    {"ring", "one ring over all ranks; bandwidth-optimal where all links are equal", hasSymmetric, buildRing},
    {"serial_ring", "ring, its two halves one after the other; a step less, for small and medium sizes",
     hasAllReduce, buildSerialRing},
    {"direct", "every rank exchanges with every other; fewest hops", hasSymmetric, buildDirect},
    {"halving_doubling", "recursive halving and doubling over all ranks; few peers, half the hops of a ring",
     hasSymmetric, buildHalvingDoubling},
    {"doubling", "recursive doubling of the whole vector over all ranks; few messages, log2 n hops",
     hasAllReduce, buildDoubling},
    {"one_shot", "every rank sends everything to every other; one hop, for tiny messages", hasAllReduce,
     buildOneShot},
    {"ho_ring", "rails of rings between groups, overlapped with a ring inside each group", hasSymmetric,
     buildHoRing, Buffers::kAnywhere, kAnySizes},
    {"ho_ring_direct", "rails of rings between groups, overlapped with direct exchange inside each group",
     hasSymmetric, buildHoRingDirect, Buffers::kAnywhere, kAnySizes},
    {"ho_direct",
     "rails of direct exchange between groups, overlapped with direct exchange inside each group",
     hasSymmetric, buildHoDirect, Buffers::kAnywhere, kAnySizes},
    {"ho_shares", "ho_direct in which a group reduces the more of the vector the faster its links are",
     hasAllReduce, buildHoShares, Buffers::kAnywhere, kAnySizes, kTakesShares},
    {"ho_ordered", "ho_direct that folds by local index, then by group: the same bits whatever the size",
     hasFold, buildHoOrdered},
    {"ho_halving",
     "rails of halving and doubling between groups, overlapped with direct exchange inside each group",
     hasSymmetric, buildHoHalving, Buffers::kAnywhere, kAnySizes},
    {"ho_doubling",
     "rails of recursive doubling between groups, direct exchange inside each group; fewest slow hops",
     hasAllReduce, buildHoDoubling, Buffers::kAnywhere, kAnySizes},
    {"ho_leaders",
     "one rank of each group collects, exchanges with the other leaders, and distributes; fewest slow "
     "messages",
     hasSymmetric, buildHoLeaders},
    {"ho_leaders_split",
     "as ho_leaders, but each leader reduces its part of the vector; fewest bytes between more than two "
     "groups",
     hasAllReduce, buildHoLeadersSplit},
    {"chain", "the whole vector from rank to rank, slice by slice; for large broadcasts and reductions",
     hasTree, buildChain},
    {"ho_chain",
     "a chain over the groups and one inside each; for large broadcasts and reductions of many ranks",
     hasTree, buildHoChain, Buffers::kAnywhere, kAnySizes, !kTakesShares, kTakesSpeed},
    {"binomial", "a tree of log2 n hops; for small broadcasts and reductions", hasTree, buildBinomial},
    {"ho_binomial", "a tree over the groups and one inside each; enters each group once", hasTree,
     buildHoBinomial, Buffers::kAnywhere, kAnySizes, !kTakesShares, kTakesSpeed},
    {"star", "everything to and from one rank; fewest turns where ranks outnumber cores", hasStar, buildStar},
    {"pairwise", "every rank sends each other one its block", hasAllToAll, buildPairwise},
    {"ho_pairwise", "as pairwise, but few ranks at once send into a group", hasAllToAll, buildPairwise,
     Buffers::kAnywhere, kAnySizes},
    {"peer_read",
     "every rank folds or gathers directly from the other ranks' inputs; for memory that ranks can read",
     hasSymmetric, buildPeerRead, Buffers::kReadByPeers},
    {"peer_write",
     "every rank folds its part from the inputs of the others straight into all outputs; for memory they can "
     "write",
     hasGathered, buildPeerWrite, Buffers::kWrittenByPeers},
};

size_t mostSources(const Schedule& schedule) {
  size_t most = 0;
  for (const Lane& lane : schedule.lanes)
    for (const Block& block : lane.blocks)
      for (const Step& step : block.body) most = std::max(most, step.sources.size());
  return most;
}

}  // namespace

std::span<const Algorithm> algorithmCatalogue() {
  return kCatalogue;
}

const Algorithm* findAlgorithm(std::string_view name) {
  for (const Algorithm& algorithm : kCatalogue)
    if (name == algorithm.name) return &algorithm;
  return nullptr;
}

Result<Schedule> buildSchedule(std::string_view name, Collective collective, const Shape& shape,
                               int32_t position, int32_t root) {
  const Algorithm* algorithm = findAlgorithm(name);
  if (!algorithm)
    return makeStatus(Code::kInvalidArgument, "there is no algorithm '%.*s'; see 'horing-plan list'",
                      static_cast<int>(name.size()), name.data());
  if (!algorithm->has(collective))
    return makeStatus(Code::kInvalidUsage, "algorithm %s has no %s", algorithm->name,
                      collectiveName(collective));
  if (shape.groups < 1 || shape.members < 1 || position < 0 || position >= shape.ranks())
    return makeStatus(Code::kInvalidArgument, "position %d is not in %d groups of %d", position, shape.groups,
                      shape.members);
  if (shape.rails && !algorithm->any_sizes)
    return makeStatus(Code::kInvalidUsage,
                      "algorithm %s needs groups of one size, here the largest has %d ranks", algorithm->name,
                      shape.members);
  if (root < 0 || root >= (hasRoot(collective) ? shape.ranks() : 1))
    return makeStatus(Code::kInvalidArgument, "root %d: %s has its root at 0 to %d", root,
                      collectiveName(collective), hasRoot(collective) ? shape.ranks() - 1 : 0);
  if (collective == Collective::kAllToAll && shape.ranks() > kMostRanksOfPairs)
    return makeStatus(Code::kInvalidUsage,
                      "an all-to-all among %d ranks has more blocks than can be numbered: at most %d ranks",
                      shape.ranks(), kMostRanksOfPairs);
  // All ranks refuse a size that is too large for the largest group.
  if (shape.rails)
    HORING_TRY(buildSchedule(name, collective, {shape.groups, shape.members}, 0, root).status());
  Schedule schedule = algorithm->build(collective, shape, position, root);
  if (const size_t sources = mostSources(schedule); sources > kMaxSources)
    return makeStatus(
        Code::kInvalidUsage,
        "algorithm %s would fold the data of %zu ranks in one step, with %d groups of %d; at most %d are "
        "possible: use ring or ho_ring (HORING_ALGO)",
        algorithm->name, sources, shape.groups, shape.members, kMaxSources);
  schedule.algorithm = algorithm->name;
  schedule.collective = collective;
  schedule.position = position;
  schedule.ranks = shape.ranks();
  schedule.root = root;
  return schedule;
}

}  // namespace horing
