#pragma once
// Agreement of all ranks before they continue: that each rank can, and that all have the same arguments.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/names.h"

namespace horing::paro {

// Collective. Returns the error of the first rank that has one, "rank 3: ...", on every rank.
Status agree(horingComm_t comm, const Status& mine);

// The arguments that must be the same on every rank.
struct Description {
  horingParoConfig_t config{};                                 // with null pointers
  horingParoMemory_t memory = HORING_PARO_MEMORY_INITIALIZER;  // only onGpu must be the same
  std::vector<horingParoParam_t> params;
  std::vector<int> units;  // by parameter
  Names names;
};

// Collective. Refuses descriptions that differ, and names a rank and its first difference from rank 0.
Status agreeOn(horingComm_t comm, const Description& mine);

}  // namespace horing::paro
