#pragma once
// The algorithm that one call asks for.
#include <string_view>

#include "algorithms/catalogue.h"
#include "base/config.h"
#include "base/status.h"
#include "topology/group_map.h"

namespace horing {

// `text`: the name of an algorithm, or a list in NCCL's spelling (selection/nccl_algorithms.h), of which the first that has the collective
// counts. Errors: kInvalidArgument, an unknown name; kInvalidUsage, an algorithm that these ranks do not run whenever it is asked for.
Result<const Algorithm*> askedAlgorithm(std::string_view text, Collective collective, const Config& config,
                                        const GroupMap& map);

}  // namespace horing
