#pragma once
#include <memory>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"

namespace horing::paro {

struct DestroyCommunicator {
  void operator()(horingComm_t comm) const { (void)horingCommDestroy(comm); }
};
using Communicator = std::unique_ptr<std::remove_pointer_t<horingComm_t>, DestroyCommunicator>;

// Status of a call of horing.h that this thread has just made.
Status statusOfHoring(horingResult_t result);

// That of the launcher (horing-run, mpirun, srun, torchrun), or one of a single rank when there was none.
Result<Communicator> joinJob();

struct Place {
  int rank = 0;
  int ranks = 1;
};
Result<Place> placeIn(horingComm_t comm);

// The groups, and this rank's place in them.
struct Groups {
  std::vector<int> sizes;  // ranks
  int own = 0;
  int local = 0;
};
Result<Groups> groupsIn(horingComm_t comm);

}  // namespace horing::paro
