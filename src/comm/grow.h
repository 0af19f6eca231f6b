#pragma once
// Lets new ranks join all ranks of a communicator.
#include <optional>

#include "base/status.h"
#include "comm/communicator.h"

namespace horing {

struct Growth {
  int ranks = 0;               // of the larger communicator
  std::optional<UniqueId> id;  // the ID that the new ranks have; at least one rank of the parent has it
  bool is_used_up = false;     // this process made the ID, and the rendezvous has ended
};

// Collective over the parent's ranks, which meet as in a shrink, whatever state the parent is in. Returns the options with which this rank
// creates the larger communicator, as ranks do that meet by ID. New ranks use the same ID and rank numbers from the parent's size on.
Result<CommunicatorOptions> grow(Communicator& parent, const Growth& growth);

}  // namespace horing
