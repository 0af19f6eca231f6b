#pragma once
// The order in which the messages of a group follow each other where one carries what another brings.
#include <span>
#include <vector>

#include "engine/host/transfer.h"

namespace horing {

// The n-th message to a peer is of round n, and so is the n-th from it; both ends count alike. All messages of a group are concurrent, in one
// exchange, unless a send reads what a receive of an earlier round writes, as rings do that forward a vector in one group. Then each round is
// an exchange of its own. Empty: one exchange of all.
std::vector<std::vector<Transfer>> roundsOf(std::span<const Transfer> transfers);

}  // namespace horing
