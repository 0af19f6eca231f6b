#pragma once
// Makes a communicator without some of the parent's ranks, which may be dead, as may be the parent's rendezvous.
#include <vector>

#include "base/status.h"
#include "comm/invitation.h"

namespace horing {

// Collective over the ranks that are not in `excluded` (ascending, no duplicates, without this rank). The ranks keep their order. The
// lowest one hosts their rendezvous, at a port that it reserved when the parent was made; it sent that ID, with a separate key, to all ranks
// over the parent's control plane then. So nothing of the parent needs to be alive. The ranks compare their lists, and the lowest one hosts
// the rendezvous of the new communicator. Returns the options with which to create it, with the parent's configuration. Errors
// concern the new communicator only, and shrinking may be tried again.
Result<CommunicatorOptions> shrink(Communicator& parent, const std::vector<int>& excluded,
                                   const OpenRendezvous& open);

}  // namespace horing
