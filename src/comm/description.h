#pragma once
// A communicator as text: the placement of ranks, and the algorithm for each size.
#include <string>

#include "comm/communicator.h"

namespace horing {

// Returns several lines.
std::string describe(const Communicator& communicator);
// At HORING_DEBUG=info: logs the placement of this rank; rank 0 also describes the communicator and warns of unexpected configurations.
void logWhoIsWhere(const Communicator& communicator);

}  // namespace horing
