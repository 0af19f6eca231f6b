#pragma once
// Sends and receives between pairs of ranks, over links that serve nothing else.
#include <algorithm>
#include <span>

#include "comm/links/connector.h"
#include "engine/host/point_to_point.h"

namespace horing {

// One thread at a time. The connector and the recorder must outlive it.
class PairMessages {
 public:
  // `recorder`: null, messages are not recorded.
  PairMessages(Connector& connector, LinkUse use, int rank, int ranks, uint32_t slot_bytes, int signals,
               MessageRecorder* recorder)
      : connections_(connector, use),
        rank_(rank),
        ranks_(ranks),
        operation_(rank, ranks, slot_bytes, connections_, signals, recorder) {}

  PointToPoint& operation() { return operation_; }
  // The links that these transfers need: to all ranks if one of them takes a message from any.
  LinkSet linksOf(std::span<const Transfer> transfers) const {
    LinkSet links{connections_.use(), {}};
    const bool from_any = std::any_of(transfers.begin(), transfers.end(),
                                      [](const Transfer& transfer) { return transfer.peer == kAnyRank; });
    for (const Transfer& transfer : transfers)
      if (transfer.peer != rank_ && !from_any) links.peers.push_back(transfer.peer);
    for (int peer = 0; from_any && peer < ranks_; ++peer)
      if (peer != rank_) links.peers.push_back(peer);
    return links;
  }

 private:
  // The links as far as they are up.
  class Connections final : public PeerConnections {
   public:
    Connections(Connector& connector, LinkUse use) : connector_(connector), use_(use) {}
    LinkUse use() const { return use_; }
    Sender* sender(int peer) override {
      Link& link = connector_.link(use_, peer);
      return link.established() ? &link.sender(0) : nullptr;
    }
    Receiver* receiver(int peer) override {
      Link& link = connector_.link(use_, peer);
      return link.established() ? &link.receiver(0) : nullptr;
    }

   private:
    Connector& connector_;
    LinkUse use_;
  };

  Connections connections_;
  int rank_;
  int ranks_;
  PointToPoint operation_;
};

}  // namespace horing
