#pragma once
// Lets ranks that join from elsewhere continue together with all of a communicator.
#include <optional>

#include "base/status.h"
#include "comm/communicator.h"

namespace horing {

struct Growth {
  int ranks = 0;               // of the larger one
  std::optional<UniqueId> id;  // that the ranks which join have; one rank of the parent at least was given it
  bool is_used_up = false;     // this process made the ID, and its rendezvous has ended
};

// Collective over the parent's ranks, which meet as those that shrink do, whatever has become of it: what this rank creates its end from, as
// ranks do that met by ID. Those that join create theirs with the same ID and ranks from the parent's on.
Result<CommunicatorOptions> grow(Communicator& parent, const Growth& growth);

}  // namespace horing
