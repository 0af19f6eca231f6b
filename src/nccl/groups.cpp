// Groups.
#include <cstdio>
#include <utility>

#include "nccl/face.h"
#include "nccl/init_lines.h"

using namespace horing::nccl;

namespace {
// The nesting depth of the calling thread's group.
thread_local int depth = 0;
thread_local ncclResult_t refused = ncclSuccess;  // the first call that this library refused
thread_local char why_refused[400] = "";
}  // namespace

bool horing::nccl::groupIsOpen() {
  return depth > 0;
}

ncclResult_t horing::nccl::refuseGroup(ncclResult_t why) noexcept {
  if (depth == 0 || refused != ncclSuccess || why == ncclSuccess) return why;
  refused = why;
  std::snprintf(why_refused, sizeof why_refused, "%s", pncclGetLastError(nullptr));
  return why;
}

NCCL_FACE(ncclResult_t, GroupStart, (void)) {
  const ncclResult_t opened = answer(horingGroupStart());
  if (opened == ncclSuccess) ++depth;
  return opened;
}

NCCL_FACE(ncclResult_t, GroupEnd, (void)) {
  if (depth > 0) --depth;
  if (depth > 0) return answer(horingGroupEnd());
  if (refused == ncclSuccess) {
    const ncclResult_t ended = answer(horingGroupEnd());
    logEnd(ended);
    return ended;
  }
  logEnd(refused);
  [[maybe_unused]] const horingResult_t dropped = horingGroupDiscard();
  return refuse(std::exchange(refused, ncclSuccess),
                "nothing of the group was launched, since it holds a call with an error: %s", why_refused);
}

NCCL_FACE(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info)) {
  static_assert(sizeof(horingSimInfo_t) == sizeof *info);
  const ncclResult_t closed = answer(horingGroupSimulateEnd(reinterpret_cast<horingSimInfo_t*>(info)));
  if (depth > 0) --depth;
  if (depth > 0) return closed;
  logEnd(ncclInvalidUsage);  // nothing is made
  if (refused == ncclSuccess) return closed;
  return refuse(std::exchange(refused, ncclSuccess), "the group holds a call with an error: %s", why_refused);
}
