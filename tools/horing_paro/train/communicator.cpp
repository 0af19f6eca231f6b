#include "horing_paro/train/communicator.h"

#include <cstdlib>

namespace horing::paro {

namespace {

bool wasLaunched() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace

Status statusOfHoring(horingResult_t result) {
  if (result == horingSuccess) return {};
  return Status(static_cast<Code>(result), horingGetLastError(nullptr));
}

Result<Communicator> joinJob() {
  horingComm_t comm = nullptr;
  HORING_TRY(
      statusOfHoring(wasLaunched() ? horingCommInitFromEnv(&comm) : horingCommInitAll(&comm, 1, nullptr)));
  return Communicator(comm);
}

Result<Place> placeIn(horingComm_t comm) {
  Place place;
  HORING_TRY(statusOfHoring(horingCommUserRank(comm, &place.rank)));
  HORING_TRY(statusOfHoring(horingCommCount(comm, &place.ranks)));
  return place;
}

}  // namespace horing::paro
