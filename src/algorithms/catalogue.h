#pragma once
// The list of algorithms: pure functions from (collective, shape, position) to a schedule.
#include <span>
#include <string_view>

#include "algorithms/shape.h"
#include "schedule/schedule.h"

namespace horing {

// What an algorithm requires of the callers' buffers.
enum class Buffers : uint8_t {
  kAnywhere,
  kReadByPeers,     // every rank can read the input of every other
  kWrittenByPeers,  // ... can write its output and, for reductions, read its input
};

struct Algorithm {
  const char* name;
  const char* summary;
  // Whether the algorithm supports this collective on any shape.
  bool (*has)(Collective collective);
  // `root`: position; only for collectives with a root.
  Schedule (*build)(Collective collective, const Shape& shape, int32_t position, int32_t root);
  Buffers buffers = Buffers::kAnywhere;
  bool any_sizes = false;     // also runs on groups of different sizes
  bool takes_shares = false;  // groups may reduce parts of different sizes (selection/group_shares.h)
  bool takes_speed = false;   // it gives groups with slow links less to do: Shape::by_speed

  bool reachesPeers() const { return buffers != Buffers::kAnywhere; }
};

std::span<const Algorithm> algorithmCatalogue();
// nullptr if the name is unknown.
const Algorithm* findAlgorithm(std::string_view name);

// The schedule of the rank at `position`. Errors: unknown name, a collective that the algorithm does not support, an empty shape, groups of
// different sizes if the algorithm needs equal ones, a position or root out of range, a step with more than kMaxSources sources.
Result<Schedule> buildSchedule(std::string_view algorithm, Collective collective, const Shape& shape,
                               int32_t position, int32_t root = 0);

// The builders.
Schedule buildRing(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildSerialRing(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoRing(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoRingDirect(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoDirect(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoShares(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoOrdered(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoHalving(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoDoubling(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoLeaders(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoLeadersSplit(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildDirect(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHalvingDoubling(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildDoubling(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildHoChain(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildChain(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildStar(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildPairwise(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildOneShot(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildPeerRead(Collective collective, const Shape& shape, int32_t position, int32_t root);
Schedule buildPeerWrite(Collective collective, const Shape& shape, int32_t position, int32_t root);

}  // namespace horing
