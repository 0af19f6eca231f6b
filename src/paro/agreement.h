#pragma once
// What all ranks must be told before they go on: that each of them can, and that they were given the same.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

// Collective. What the first rank has that is not well: "rank 3: ...", on every rank.
Status agree(horingComm_t comm, const Status& mine);

// What must be the same on every rank.
struct Description {
  horingParoConfig_t config{};  // without its pointer
  std::vector<horingParoParam_t> params;
  std::vector<int> units;  // of each
};

// Collective. Refuses descriptions that differ, and names a rank and the first difference to rank 0.
Status agreeOn(horingComm_t comm, const Description& mine);

}  // namespace horing::paro
