#pragma once
// Checking and printing what a link was asked to be, for every transport.
#include <string>

#include "base/status.h"
#include "transport/transport.h"

namespace horing {

// kInvalidArgument naming the member that is out of range.
Status checkLinkShape(const LinkShape& shape);

// kInvalidArgument unless a link may have this number.
Status checkLinkNumber(int number);

// The same for transports whose slots are not memory that both ends reach.
inline LinkShape withoutRoom(LinkShape shape) {
  shape.room = 0;
  return shape;
}

// "2 channels x 8 slots x 65536 bytes"
std::string linkShapeText(const LinkShape& shape);

// The error of a link whose ends were given different shapes; both ends report the same facts.
Status linkShapeMismatch(int rank, const LinkShape& mine, int peer, const LinkShape& theirs);

}  // namespace horing
