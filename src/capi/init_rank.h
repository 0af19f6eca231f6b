#pragma once
// A rank that joins by ID: the arguments of the call.
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
// Runs now, or at the end of the open group.
Status initRank(const InitRank& init);

UniqueId idOf(const horingUniqueId& given);
// Makes a new ID, with a rendezvous that waits as long as the process runs.
Status makeUniqueId(const Config& config, horingUniqueId* made);

}  // namespace horing
