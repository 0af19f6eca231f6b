#pragma once
// A communicator in words: who is where, and which algorithm serves which size.
#include <string>

#include "comm/communicator.h"

namespace horing {

// Several lines.
std::string describe(const Communicator& communicator);
// At HORING_DEBUG=info: where this rank is; rank 0 also describes the whole, and warns of what is not as users expect.
void logWhoIsWhere(const Communicator& communicator);

}  // namespace horing
