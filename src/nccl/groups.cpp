// Groups.
#include "nccl/face.h"

using namespace horing::nccl;

namespace {
thread_local int depth = 0;  // of the calling thread's groups
}

bool horing::nccl::groupIsOpen() {
  return depth > 0;
}

NCCL_FACE(ncclResult_t, GroupStart, (void)) {
  const ncclResult_t opened = answer(horingGroupStart());
  if (opened == ncclSuccess) ++depth;
  return opened;
}

NCCL_FACE(ncclResult_t, GroupEnd, (void)) {
  if (depth > 0) --depth;
  return answer(horingGroupEnd());
}

NCCL_FACE(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info)) {
  constexpr unsigned int kMagic = 0x74685283;
  if (info && (info->magic != kMagic || info->size < sizeof *info))
    return refuse(ncclInvalidArgument, "simInfo was not initialised: begin with NCCL_SIM_INFO_INITIALIZER");
  if (depth > 0) --depth;
  if (const horingResult_t closed = horingGroupDiscard(); closed != horingSuccess) return answer(closed);
  return notServed("ncclGroupSimulateEnd",
                   "the group is closed and nothing of it was launched; horing-sim predicts times");
}
