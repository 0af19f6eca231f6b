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
};

// Collective over all ranks of the parent. Those of one color become a communicator, ordered by key, then by their rank in
// the parent. The one whose process hosts the fewest rendezvous hosts theirs, for each takes descriptors and a thread. Returns what to
// create the communicator from, with the parent's configuration; nothing for kNoColor. An error of the exchange sticks to the parent; that
// a rendezvous could not be opened does not, and concerns the ranks of that color only.
Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open);

}  // namespace horing
