#include "horing_paro/train/communicator.h"

#include <algorithm>
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

Result<Groups> groupsIn(horingComm_t comm) {
  HORING_ASSIGN(const Place place, placeIn(comm));
  Groups groups;
  for (int rank = 0; rank < place.ranks; ++rank) {
    int group = 0, local = 0;
    HORING_TRY(statusOfHoring(horingCommGroup(comm, rank, &group, &local)));
    groups.sizes.resize(std::max(groups.sizes.size(), static_cast<size_t>(group) + 1));
    ++groups.sizes[static_cast<size_t>(group)];
    if (rank == place.rank) groups.own = group, groups.local = local;
  }
  return groups;
}

}  // namespace horing::paro
