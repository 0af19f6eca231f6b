#pragma once
// Checks the arguments of a collective before anything is sent.
#include "base/status.h"
#include "engine/host/call.h"
#include "engine/host/transfer.h"

namespace horing {

struct Caller {
  int rank = 0;
  int ranks = 1;
  int position = 0;
};

// What buffers a rank must pass to a call of these sizes, type and root.
struct BufferRules {
  bool has_send = true;
  bool has_recv = true;
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
  size_t element_bytes = 1;  // a power of two
  bool may_be_in_place = true;
  // In place: where the smaller buffer begins, in bytes from the larger one's start.
  size_t in_place_offset = 0;

  // Whether the required buffers are not null, are aligned to their elements, and overlap only if the call is in place.
  bool allow(const void* send, const void* recv) const {
    const auto from = reinterpret_cast<uintptr_t>(send), to = reinterpret_cast<uintptr_t>(recv);
    const bool sends = has_send && send_bytes > 0, receives = has_recv && recv_bytes > 0;
    if (sends && (from == 0 || (from & (element_bytes - 1)) != 0)) return false;
    if (receives && (to == 0 || (to & (element_bytes - 1)) != 0)) return false;
    if (!sends || !receives || from + send_bytes <= to || to + recv_bytes <= from) return true;
    return may_be_in_place &&
           (send_bytes >= recv_bytes ? to == from + in_place_offset : from == to + in_place_offset);
  }
};

// kInvalidArgument names the argument of include/horing/horing.h and says what was expected: an unknown type or
// operation, a root that is no rank, sizes beyond memory.
Status findBufferRules(const CallSpec& spec, const Caller& caller, BufferRules& rules);
// kInvalidArgument: buffers that are missing, misaligned or overlap.
Status whyBuffersRefused(const BufferRules& rules, const void* send, const void* recv);
inline Status checkBuffers(const BufferRules& rules, const void* send, const void* recv) {
  return rules.allow(send, recv) ? Status() : whyBuffersRefused(rules, send, recv);
}
// findBufferRules(), then checkBuffers().
Status checkArguments(const Call& call, const Caller& caller);

// kInvalidArgument: the number is no element type.
Status checkType(DataType type);

// kInvalidArgument, for one message: a peer that is no rank, sizes beyond memory, a buffer that is missing.
Status checkTransfer(const Transfer& transfer, int rank, int ranks);

}  // namespace horing
