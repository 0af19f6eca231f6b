#pragma once
// How the ranks of a communicator make smaller ones among themselves.
#include <functional>
#include <optional>

#include "base/status.h"
#include "comm/communicator.h"

namespace horing {

inline constexpr int kNoColor = -1;

struct SplitChoice {
  int color = kNoColor;  // kNoColor, or 0 and above
  int key = 0;
};

// Begins a rendezvous in this process that the ranks of this parent can reach, and returns its ID.
using OpenRendezvous = std::function<Result<UniqueId>(const CommunicatorOptions& parent)>;

// Collective over all ranks of the parent. Those of one color become a communicator, ordered by key, then by their rank in
// the parent; its lowest rank hosts the rendezvous. Returns what to create it from, with the parent's configuration; nothing
// for kNoColor. An error of the exchange sticks to the parent; that a rendezvous could not be opened does not, and
// concerns the ranks of that color only.
Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open);

// The rest of it for a rank whose new place and ID are known. The parent's threads stay threads of one hub.
Result<CommunicatorOptions> branchOf(const Communicator& parent, const UniqueId& id, int rank, int ranks);

}  // namespace horing
