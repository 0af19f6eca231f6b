#pragma once
// How the ranks of a communicator go on without some of them, which may be dead, as may be its rendezvous.
#include <vector>

#include "base/status.h"
#include "comm/invitation.h"

namespace horing {

// Collective over the ranks that are not in `excluded`, ascending and without duplicates, which leaves this rank. They keep
// their order; the lowest hosts the meeting, at a port that it took when the parent was made and whose ID, with a key of
// its own, it then told all others over the parent's control plane. So nothing of the parent needs to be alive. They
// compare whom they exclude, and the lowest hosts the rendezvous of the new communicator. Returns what to create it from,
// with the parent's configuration. Errors concern the new communicator only, and shrinking may be tried again.
Result<CommunicatorOptions> shrink(Communicator& parent, const std::vector<int>& excluded,
                                   const OpenRendezvous& open);

}  // namespace horing
