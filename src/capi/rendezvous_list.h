#pragma once
// The rendezvous that this process hosts for IDs that it made: the API gives them no owner.
#include <memory>

#include "base/config.h"
#include "base/status.h"
#include "control/root_service.h"
#include "control/unique_id.h"

namespace horing {

// How long a rendezvous waits for the first rank. Of an ID that the program has, as long as the process lives: only the program knows
// when it will be used. Of one that ranks use at once, some minutes: should all of them fail before they come, it ends by itself.
enum class Patience : uint8_t { kEndless, kUntilRanksCome };
// Begins a rendezvous for a new ID. Kept here until the first rank claims it.
Result<UniqueId> openRendezvous(const Config& config, RootOptions::Reach reach, Patience patience);

// The rendezvous of this ID if this process hosts it, else null. It belongs to those who claimed it: it ends with the last
// of them, and says so to the ranks elsewhere. kInvalidUsage: it has ended.
Result<std::shared_ptr<RootService>> claimRendezvous(const UniqueId& id);

// Whether it is one of this process, and has ended.
bool isUsedUp(const UniqueId& id);

}  // namespace horing
