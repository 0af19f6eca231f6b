#pragma once
// One link over shared memory and its handshake.
//
// Each end makes the file that it receives into, opens the peer's file, writes its answer there (mapped, or shapes differ), and waits for
// the peer's answer. Nothing blocks; settle() makes progress.
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
  // The peers whose files this rank opens no more; peers read it.
  RankBits* given_up = nullptr;
  Rights rights;
  bool can_populate = false;  // the kernel has what populatePages() needs
  uint64_t ample_bytes = 0;   // ShmOptions
  size_t linked_ranks = 1;    // this one, and those that it has links to or is about to

  // Whether the rights have changed since it was made: files of peers, or of this rank for peers, may be inaccessible.
  bool hasOtherRights() const { return Rights() != rights; }

  int rank() const { return address.rank; }
  std::string path(const std::string& suffix) const { return directory + "/" + address.stem.data() + suffix; }
};

class ShmLink {
 public:
  static Result<std::unique_ptr<ShmLink>> begin(ShmSelf* self, const ShmAddress& peer, const LinkShape& shape,
                                                int number);

  ~ShmLink();

  SlotLink& link() { return link_; }
  // Drives the handshake; true once it has succeeded, failed, or been given up.
  bool settle();
  // Fails the link if the peer's process has died; true if it has just been found dead.
  bool failIfPeerDied();
  // Wakes the peer.
  void ring() const { peer_.button().press(); }
  // Whether the memory is a memfd, since it did not fit into the directory.
  bool isElsewhere() const { return inbound_.is_elsewhere; }
  // Shared memory made by this rank, as far as it is used.
  uint64_t memoryBytes() const {
    return inbound_.has_holes ? inbound_.map.residentBytes() : inbound_.map.bytes();
  }

 private:
  ShmLink(ShmSelf* self, SlotLinkState state, const LinkShape& shape, ShmPeer peer, ShmFile inbound);
  // Maps the peer's row if it is there. False: not yet.
  Result<bool> openOutbound();
  // Gives the link up when the ends can no longer open each other's files.
  void giveUp();
  void dropInbound();
  // The peer's answer in this rank's row; kWaiting: none yet.
  RowState answer() const;
  RowHeader& inboundHeader() const { return *reinterpret_cast<RowHeader*>(inbound_.map.data()); }

  ShmSelf* self_;
  SlotLink link_;
  ShmPeer peer_;
  ShmFile inbound_;
  ShmMap outbound_;
  bool has_holes_ = false;  // outbound_
};

}  // namespace horing
