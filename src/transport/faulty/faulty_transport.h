#pragma once
// A decorator for tests: another transport, made slow, unreliable or wrong in a way that a seed repeats
// exactly.
#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace horing {

// All delays are counted in polls of the connection, so that no clock takes part. A value.
struct FaultPlan {
  uint64_t seed = 1;
  // A message is seen only after 0 .. this many polls that could have seen it. A connection stays
  // first-in-first-out; what different connections deliver changes its order.
  uint32_t max_delay_polls = 0;
  // The same for a slot that becomes free again.
  uint32_t max_credit_delay_polls = 0;
  // The links to this peer (-1: to every peer) are cut after `cut_after_messages` messages posted and
  // released by this rank, counted over all channels. A cut link neither delivers nor accepts; its error is
  // kRemoteError naming the peer.
  int cut_peer = -1;
  uint64_t cut_after_messages = UINT64_MAX;
  // One bit of one in so many messages, on average, is flipped before it leaves. 0: none.
  uint32_t flip_one_in = 0;
  // All readers pass for far (Sender::readerIsFar).
  bool far_readers = false;
};

// Owns `inner`. `rank` is this rank's, for messages and to give every rank faults of its own.
std::unique_ptr<Transport> makeFaultyTransport(std::unique_ptr<Transport> inner, int rank,
                                               const FaultPlan& plan);

}  // namespace horing
