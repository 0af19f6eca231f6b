#pragma once
// Checks and prints the shape of a link, for every transport.
#include <string>

#include "base/status.h"
#include "transport/transport.h"

namespace horing {

// kInvalidArgument naming the member that is out of range.
Status checkLinkShape(const LinkShape& shape);

// kInvalidArgument unless a link may have this number.
Status checkLinkNumber(int number);

// The shape without `room`, for transports without slots in shared memory.
inline LinkShape withoutRoom(LinkShape shape) {
  shape.room = 0;
  return shape;
}

// "2 channels x 8 slots x 65536 bytes"
std::string linkShapeText(const LinkShape& shape);

// The error of a link whose ends were given different shapes; both ends report the same facts.
Status linkShapeMismatch(int rank, const LinkShape& mine, int peer, const LinkShape& theirs);

}  // namespace horing
