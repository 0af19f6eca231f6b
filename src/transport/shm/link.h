#pragma once
// One link over shared memory and its handshake.
//
// Each end makes the file that it receives into, then opens the peer's, writes into it that it has (or that
// the shapes differ), and waits to be told the same. None of it blocks; settle() does what can be done.
#include <memory>
#include <string>

#include "base/rights.h"
#include "base/status.h"
#include "transport/shm/directory.h"
#include "transport/shm/layout.h"
#include "transport/shm/peer.h"
#include "transport/slots/slot_link.h"

namespace horing {

// This rank, for all its links. Must outlive them.
struct ShmSelf {
  std::string directory;
  ShmAddress address;
  // Receives the first error of any link.
  Status first_error;
  // Of which this rank opens nothing more, as its peers read it.
  RankBits* given_up = nullptr;
  Rights rights;

  // Than when it was made: peers' files, or this rank's for them, may be out of reach.
  bool hasOtherRights() const { return Rights() != rights; }

  int rank() const { return address.rank; }
  std::string path(const std::string& suffix) const { return directory + "/" + address.stem.data() + suffix; }
};

class ShmLink {
 public:
  static Result<std::unique_ptr<ShmLink>> begin(ShmSelf* self, const ShmAddress& peer, const LinkShape& shape,
                                                int number);

  SlotLink& link() { return link_; }
  // Drives the handshake; true once it is over, for good or bad, or given up.
  bool settle();
  // Fails the link if the peer's process has died; true if it has just been found dead.
  bool mourn();
  // Wakes the peer.
  void ring() const { peer_.button().press(); }
  // Whether that memory did not fit into the directory.
  bool isElsewhere() const { return inbound_.is_elsewhere; }
  // Shared memory made by this rank.
  uint64_t memoryBytes() const { return inbound_.map.bytes(); }

 private:
  ShmLink(ShmSelf* self, SlotLinkState state, const LinkShape& shape, ShmPeer peer, ShmFile inbound)
      : self_(self),
        link_(std::move(state), shape, "shm " + self->directory),
        peer_(std::move(peer)),
        inbound_(std::move(inbound)) {}
  // Maps the peer's row if it is there. False: not yet.
  Result<bool> openOutbound();
  // When the ends reach each other no longer.
  void giveUp();
  // What the peer wrote into our row; kWaiting while it has not.
  RowState answer() const;
  RowHeader& inboundHeader() const { return *reinterpret_cast<RowHeader*>(inbound_.map.data()); }

  ShmSelf* self_;
  SlotLink link_;
  ShmPeer peer_;
  ShmFile inbound_;
  ShmMap outbound_;
};

}  // namespace horing
