#include "algorithms/catalogue.h"

#include <algorithm>

namespace horing {

namespace {

bool hasAll(Collective) {
  return true;
}
bool hasAllReduce(Collective collective) {
  return collective == Collective::kAllReduce;
}

constexpr Algorithm kCatalogue[] = {
    {"ring", "one ring over all ranks; bandwidth-optimal where all links are equal", hasAll, buildRing},
    {"ho_ring", "rails of rings between groups, overlapped with a ring inside each group", hasAll,
     buildHoRing},
    {"ho_ring_direct", "rails of rings between groups, overlapped with direct exchange inside each group",
     hasAll, buildHoRingDirect},
    {"ho_direct",
     "rails of direct exchange between groups, overlapped with direct exchange inside each group", hasAll,
     buildHoDirect},
    {"ho_halving",
     "rails of halving and doubling between groups, overlapped with direct exchange inside each group",
     hasAll, buildHoHalving},
    {"ho_doubling",
     "rails of recursive doubling between groups, direct exchange inside each group; fewest slow hops",
     hasAllReduce, buildHoDoubling},
    {"direct", "every rank exchanges with every other; fewest hops", hasAll, buildDirect},
    {"halving_doubling", "recursive halving and doubling over all ranks; few peers, half the hops of a ring",
     hasAll, buildHalvingDoubling},
    {"doubling", "recursive doubling of the whole vector over all ranks; few messages, log2 n hops",
     hasAllReduce, buildDoubling},
    {"star", "everything through one rank; fewest turns where ranks outnumber cores", hasAllReduce,
     buildStar},
    {"one_shot", "every rank sends everything to every other; one hop, for tiny messages", hasAllReduce,
     buildOneShot},
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

Result<Schedule> buildSchedule(std::string_view name, Collective collective, Shape shape, int32_t position) {
  const Algorithm* algorithm = findAlgorithm(name);
  if (!algorithm)
    return makeStatus(Code::kInvalidArgument, "there is no algorithm '%.*s'", static_cast<int>(name.size()),
                      name.data());
  if (!algorithm->has(collective))
    return makeStatus(Code::kInvalidUsage, "algorithm %s has no %s", algorithm->name,
                      collectiveName(collective));
  if (shape.groups < 1 || shape.members < 1 || position < 0 || position >= shape.ranks())
    return makeStatus(Code::kInvalidArgument, "position %d is not in %d groups of %d", position, shape.groups,
                      shape.members);
  Schedule schedule = algorithm->build(collective, shape, position);
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
  return schedule;
}

}  // namespace horing
