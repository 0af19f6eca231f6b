#pragma once
// A decorator for tests: another transport, made slow, unreliable or wrong in a way that a seed repeats
// exactly.
#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace horing {

// All delays count polls of the connection, without a clock. A value.
struct FaultPlan {
  uint64_t seed = 1;
  // A message is delivered only after 0 .. this many polls that could have returned it. A connection stays first-in-first-out; the order
  // among connections changes.
  uint32_t max_delay_polls = 0;
  // The same for a slot that becomes free again.
  uint32_t max_credit_delay_polls = 0;
  // A landing is described only after 0 .. this many calls that could have done so (LandingReceiver::tryLand).
  uint32_t max_landing_delay_polls = 0;
  // The links to this peer (-1: to every peer) are cut after `cut_after_messages` messages posted and
  // released by this rank, counted over all channels. A cut link neither delivers nor accepts; its error is
  // kRemoteError naming the peer.
  int cut_peer = -1;
  uint64_t cut_after_messages = UINT64_MAX;
  // On average one in this many messages has one bit flipped before it is sent. 0: none.
  uint32_t flip_one_in = 0;
  // All readers appear far (SharedSlotsSender::readerIsFar).
  bool far_readers = false;
};

// Owns `inner`. `rank`: this rank, for messages and for different faults on every rank.
std::unique_ptr<Transport> makeFaultyTransport(std::unique_ptr<Transport> inner, int rank,
                                               const FaultPlan& plan);

}  // namespace horing
