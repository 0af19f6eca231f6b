#pragma once
// Recursive doubling of a whole chunk over one line: the all-reduce with the fewest hops.
//
// In round k, members whose indices differ in bit k exchange the values that they have folded so far, so that after log2 n rounds every
// member has the result. If n is not a power of two, members beyond the largest power of two below n send their share to a partner first
// and get the result from it: two more hops. All members end with the same bits: both members of a pair fold the same two rounded values in
// the same order, the lower index first. Cost: log2 n hops, one message and all bytes of the chunk in each.
#include "algorithms/pattern.h"

namespace horing {

// Adds the all-reduce of `chunk` over the line to the lane. This rank's share is in `from` once `after` holds; the result goes to the
// output.
void reduceByDoubling(LaneBuilder& lane, const Line& line, int32_t chunk, Place from, const Wait& after);

}  // namespace horing
