#pragma once
// What a rank tells the others of itself when a communicator is made.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/membership/communicator_options.h"
#include "comm/membership/host_identity.h"
#include "comm/membership/job.h"
#include "comm/membership/rank_place.h"
#include "control/unique_id.h"

namespace horing {

struct Introduction {
  std::string settings;  // settingsText(): the same on every rank
  Job::First first;      // rank 0's counts
  HostIdentity identity;
  Fragment fragment;
  std::optional<UniqueId> meeting_place;            // where this rank would host a meeting
  std::vector<std::vector<std::byte>> addresses{};  // of its transports, in their order
};

// The variables that must be equal on all ranks, as one line of text. `table_digest`: of the table of algorithms.
std::string settingsText(const Config& config, uint64_t table_digest);
// What rank 0 keeps of what was measured, and whether it measures what is not kept.
Job::First firstOf(const CommunicatorOptions& options);

std::vector<std::byte> encodeIntroduction(const Introduction& introduction);
// Of all ranks, as rank `reader` has got them: bytes that are not trusted to be well formed. kInvalidUsage: settings differ.
Result<std::vector<Introduction>> decodeIntroductions(const std::vector<std::vector<std::byte>>& told,
                                                      int reader);

}  // namespace horing
