#pragma once
// One of the ranks that meet with an ID, as the arguments of a call say.
#include "base/status.h"
#include "control/unique_id.h"
#include "horing/horing.h"

namespace horing {

struct InitRank {
  horingComm_t* comm;
  int ranks;
  horingUniqueId id;
  int rank;
  const horingConfig_t* config;
  const horingOptions_t* options = nullptr;
};
// Now, or at the end of the group that is open.
Status initRank(const InitRank& init);

UniqueId idOf(const horingUniqueId& given);
// A new one, with a rendezvous that waits as long as the process lives.
Status makeUniqueId(const Config& config, horingUniqueId* made);

}  // namespace horing
