#pragma once
// How kernels run calls with unequal blocks and lists: as several calls with blocks of one size, or as messages.
#include <vector>

#include "comm/calls/command.h"

namespace horing {

// Whether the command runs as messages between pairs of ranks: all-to-all, gather and scatter with blocks that differ in size, since no
// rank knows all sizes.
bool isOfMessages(const Command& command);
// The messages of one rank.
std::vector<Transfer> messagesOf(const Call& call, int ranks);

// Any other collective as a sequence of calls with blocks of one size: each entry of a list; for an unequal all-gather, a broadcast from
// each rank; for an unequal reduce-scatter, a reduction to each rank. Without calls that move nothing. The same on every rank.
std::vector<Call> evenParts(const Command& command, int rank, int ranks);

}  // namespace horing
