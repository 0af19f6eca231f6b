#pragma once
// Whether what a caller gave makes a collective, before anything is sent.
#include "base/status.h"
#include "engine/host/operation.h"
#include "engine/host/point_to_point.h"

namespace horing {

struct Caller {
  int rank = 0;
  int ranks = 1;
  int position = 0;
};

// kInvalidArgument names the argument of include/horing/horing.h and says what was expected: an unknown type or
// operation, a root that is no rank, sizes beyond memory, buffers that are missing, misaligned or overlap.
Status checkArguments(Collective collective, const Call& call, const Caller& caller);

// The same for the type alone, which may be any number.
Status checkType(DataType type);

// The same for one message: a peer that is no rank, sizes beyond memory, a buffer that is missing.
Status checkTransfer(const Transfer& transfer, int ranks);

}  // namespace horing
