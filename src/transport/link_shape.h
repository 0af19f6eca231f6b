#pragma once
// Checking and printing of LinkShape, for every transport.
#include <string>

#include "base/status.h"
#include "transport/transport.h"

namespace horing {

// kInvalidArgument naming the member that is out of range.
Status checkLinkShape(const LinkShape& shape);

// "2 lanes x 8 slots x 65536 bytes"
std::string linkShapeText(const LinkShape& shape);

// The error of a link whose ends were given different shapes; both ends report the same facts.
Status linkShapeMismatch(int rank, const LinkShape& mine, int peer, const LinkShape& theirs);

}  // namespace horing
