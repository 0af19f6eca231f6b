#pragma once
// Splits a communicator into smaller ones.
#include <optional>

#include "base/status.h"
#include "comm/invitation.h"

namespace horing {

inline constexpr int kNoColor = -1;

struct SplitChoice {
  int color = kNoColor;  // kNoColor, or 0 and above
  int key = 0;
  const char* what = "horingCommSplit";  // the call, for errors
  bool replaces_parent = false;          // the child follows rates that change if the parent does
};

// Collective over all ranks of the parent. The ranks of one color form a communicator, ordered by key, then by rank in the parent. The
// rank whose process hosts the fewest rendezvous hosts the new one, since each rendezvous takes descriptors and a thread. Returns the
// options with which this rank creates the communicator, with the parent's configuration; nothing for kNoColor. An error of the exchange
// sticks to the parent. A rendezvous that cannot be opened is an error for the ranks of that color only, and does not stick.
Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open);

}  // namespace horing
