#pragma once
// Converts failures of the C API to a Status.
#include "base/status.h"
#include "horing/horing.h"

namespace horing::paro {

// For a call that this thread has just made.
inline Status statusOf(horingResult_t result) {
  if (result == horingSuccess) return {};
  return Status(static_cast<Code>(result), horingGetLastError(nullptr));
}

}  // namespace horing::paro
