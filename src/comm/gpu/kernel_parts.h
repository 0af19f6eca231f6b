#pragma once
// How kernels carry out what they have no tables for: as several calls with blocks of one size, or as messages.
#include <vector>

#include "comm/calls/command.h"

namespace horing {

// Whether it is messages between pairs of ranks: all-to-all, gather and scatter with blocks that differ in size, of which no rank knows
// all.
bool isOfMessages(const Command& command);
// These, of one rank.
std::vector<Transfer> messagesOf(const Call& call, int ranks);

// Any other collective, as such with blocks of one size, in order: each entry of a list; of an all-gather with blocks that differ a broadcast
// from each rank, of a reduce-scatter a reduction to each. Without those that move nothing. Every rank has the same.
std::vector<Call> evenParts(const Command& command, int rank, int ranks);

}  // namespace horing
