#pragma once
// Broadcasts one text from rank 0 through PMIx, which Open MPI's mpirun offers. libpmix is loaded when needed; horing neither links it nor
// needs its headers.
#include <string>

#include "base/status.h"

namespace horing {

// Collective over all ranks of the launch. Returns rank 0's `text` on every rank.
Result<std::string> broadcastOverPmix(int rank, const std::string& text, int64_t timeout_ms);

}  // namespace horing
