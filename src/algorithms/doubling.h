#pragma once
// Recursive doubling of a whole chunk over one line: the all-reduce with the fewest hops.
//
// In round k the members whose indices differ in bit k send each other all they have folded so far, so that after
// log2 n rounds everybody has everything. For n not a power of two the members beyond the largest one below it hand
// their share to a partner first and get the result from it: two hops more.
// All members end with the same bits: both of a pair fold the same two values, which are rounded, in the same order,
// the lower index first.
// Cost: log2 n hops, one message and all bytes of the chunk in each.
#include "algorithms/pattern.h"

namespace horing {

// Adds to the lane the all-reduce of `chunk` over the line. The own share lies in `from` from the moment `after` on; the
// result goes to the output.
void reduceByDoubling(LaneBuilder& lane, const Line& line, int32_t chunk, Place from, const Wait& after);

}  // namespace horing
