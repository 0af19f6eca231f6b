#include "algorithms/catalogue.h"

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
    {"direct", "every rank exchanges with every other; fewest hops", hasAll, buildDirect},
    {"one_shot", "every rank sends everything to every other; one hop, for tiny messages", hasAllReduce,
     buildOneShot},
};

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
  schedule.algorithm = algorithm->name;
  schedule.collective = collective;
  schedule.position = position;
  schedule.ranks = shape.ranks();
  return schedule;
}

}  // namespace horing
