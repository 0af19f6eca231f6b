#pragma once
// How much a call moves.
#include "base/types.h"
#include "engine/host/operation.h"

namespace horing {

// Bytes of the whole vector, or of all blocks that one rank has: the measure by which an algorithm is chosen.
size_t totalBytes(Collective collective, const Call& call, int ranks);

}  // namespace horing
