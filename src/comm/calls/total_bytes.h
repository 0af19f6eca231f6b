#pragma once
// How much a call moves.
#include "engine/host/call.h"

namespace horing {

// Bytes of the whole vector, or of all blocks that one rank has.
size_t totalBytes(const CallSpec& spec, int ranks);
// The measure by which all ranks choose the same algorithm: these bytes, but the most there are where each rank has blocks of its own sizes.
size_t selectionBytes(uint64_t agreed_count, size_t total_bytes);

// Whether a call moves nothing on any rank; then the other ranks need not make it. If blocks differ, this rank may have nothing
// while other ranks have something; and all ranks take part in an empty list.
inline bool movesNothing(const CallSpec& spec) {
  return spec.count == 0 && !spec.uneven && spec.list == 0;
}

}  // namespace horing
