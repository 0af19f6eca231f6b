#pragma once
// The rendezvous that this process hosts for IDs that it made: the API gives them no owner.
#include <memory>

#include "base/config.h"
#include "base/status.h"
#include "control/root_service.h"
#include "control/unique_id.h"

namespace horing {

// How long a rendezvous waits for the first rank. kEndless: for IDs that the program holds, since only the program knows when it uses them.
// kMinutes: for IDs that ranks use at once, so that the rendezvous ends if all ranks fail before they connect.
enum class IdleLimit : uint8_t { kEndless, kMinutes };
// Opens a rendezvous for a new ID, owned by this list until the first rank claims it.
Result<UniqueId> openRendezvous(const Config& config, RootOptions::Reach reach, IdleLimit limit);

// The rendezvous of this ID if this process hosts it, else null. Owned by its claimants: it ends with the last of them, and tells the
// remote ranks. kInvalidUsage: it has ended.
Result<std::shared_ptr<RootService>> claimRendezvous(const UniqueId& id);

// Whether the rendezvous was in this process and has ended.
bool isUsedUp(const UniqueId& id);

}  // namespace horing
