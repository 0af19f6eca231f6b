#pragma once
// The introduction that a rank sends to the others when a communicator is made.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/status.h"
#include "comm/membership/communicator_options.h"
#include "comm/membership/host_identity.h"
#include "comm/membership/placement.h"
#include "comm/membership/rank_place.h"
#include "control/unique_id.h"

namespace horing {

struct Introduction {
  std::string settings;    // settingsText(): the same on every rank
  Placement::First first;  // rank 0's counts
  HostIdentity identity;
  Fragment fragment;
  std::optional<UniqueId> bootstrap_id;  // of the rendezvous that this rank would host for a bootstrap
  std::vector<std::vector<std::byte>> addresses{};  // of its transports, in the order of the transports
};

// The settings that must be equal on all ranks (Sharing::kShared), as one line of text. `table_digest`: the digest of the selection table.
std::string settingsText(const CommunicatorOptions& options, uint64_t table_digest);
// Whether this rank has cached tables, and whether it measures if there is none; of all ranks, rank 0's answer counts.
Placement::First firstOf(const CommunicatorOptions& options);

// For the exchange (base/fields.h).
void fields(auto& wire, Is<Introduction> auto& introduction);
// Decodes the introductions of all ranks, as received by rank `reader`: untrusted bytes. kInvalidUsage: settings differ.
Result<std::vector<Introduction>> decodeIntroductions(const std::vector<std::vector<std::byte>>& told,
                                                      int reader);

}  // namespace horing
