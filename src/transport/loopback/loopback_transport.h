#pragma once
// Ranks as threads of one process, or many ranks in one thread: slots on the heap, doorbells over eventfd.
#include <memory>

#include "base/status.h"
#include "transport/loopback/hub.h"
#include "transport/transport.h"

namespace horing {

// The transport of `rank` (0 .. hub->ranks()-1) in `hub`. One transport at a time for each rank.
Result<std::unique_ptr<Transport>> makeLoopbackTransport(std::shared_ptr<LoopbackHub> hub, int rank);

}  // namespace horing
