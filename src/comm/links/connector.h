#pragma once
// Finds a transport to every peer that a plan needs, and keeps the links.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/peer_waits.h"
#include "base/status.h"
#include "schedule/link_slots.h"
#include "transport/lent_memory.h"
#include "transport/transport.h"

namespace horing {

// The addresses that ranks publish for their transports. Index: rank, then transport.
using AddressTable = std::vector<std::vector<std::vector<std::byte>>>;

// Each use has links of its own, so that one use cannot take the slots of another. Collectives may have several links to a peer, since a
// link has few channels.
inline constexpr int kCollectiveLinks = 4;
enum class LinkUse : uint8_t { kCollective, kPointToPoint = kCollectiveLinks, kBeside, kMeasurement };
constexpr LinkUse collectiveLink(int number) {
  return static_cast<LinkUse>(number);
}
inline constexpr int kLinkUses = kCollectiveLinks + 3;
static_assert(kLinkUses <= kMaxLinksPerPeer / 2, "other uses may take the places of uses that are given up");

// A set of links: their use and the peers.
struct LinkSet {
  LinkUse use = LinkUse::kCollective;
  std::vector<int> peers;
};

// One thread at a time.
class Connector {
 public:
  // One shape for each transport; point-to-point links have kPointToPointChannels of its channels.
  Connector(int rank, std::vector<LinkShape> shapes, std::vector<std::unique_ptr<Transport>> transports);

  // Addresses of this rank's transports, in the order of the transports.
  std::vector<std::vector<std::byte>> addresses() const;
  // Whether this rank can reach a peer by a transport; valid after setAddresses().
  void setAddresses(AddressTable table) { addresses_ = std::move(table); }
  bool canReach(int peer, size_t transport) const;
  // For messages: the reason why not, as far as this rank knows.
  std::string whyUnreachable(int peer, size_t transport) const;

  // For each rank, the first transport that works both ways, and the next one, for links that the first gives up; both ends choose the
  // same. -1: none.
  void setChoices(std::vector<int> transport_of_rank, std::vector<int> next_of_rank = {}) {
    transport_of_rank_ = std::move(transport_of_rank);
    next_of_rank_ = std::move(next_of_rank);
  }
  int choiceFor(int peer) const { return transport_of_rank_[static_cast<size_t>(peer)]; }

  // Starts the links that do not exist yet. The caller then calls progress() until established().
  Status begin(const LinkSet& links);
  bool established(const LinkSet& links) const;
  // "rank 3 by shm, rank 5 by socket (connecting to ...)": the peers that are not connected.
  std::string describeMissing(const LinkSet& links) const;

  // The ranks of the peers that are not connected.
  std::vector<int32_t> missing(const LinkSet& links) const;

  // Whether any link is being re-established.
  bool isMending() const;
  // Adds, as waits for room, the peers to which messages are in flight. This rank itself may not be waiting, since the system's buffers
  // have taken the messages.
  void addUnderWay(PeerWaits& waits) const;

  Link& link(LinkUse use, int peer) { return *at(use, peer); }
  const std::vector<std::unique_ptr<Transport>>& transports() const { return transports_; }
  // The index of the transport of that name; the number of transports if there is none.
  size_t indexOf(std::string_view name) const;
  // Whether this rank has the transport of that name, and not only a placeholder for it.
  bool has(std::string_view name) const;
  uint32_t allTransports() const { return (1u << transports_.size()) - 1; }
  // Bits of the transports that reach some peer.
  uint32_t chosenTransports() const;
  // Bits of the transports that the links use.
  uint32_t transportsOf(const LinkSet& links) const;

  // Drives the transports whose bit is set, and the transports that took over links; see Transport.
  Status progress(uint32_t transports);
  void beginWait(uint32_t transports);
  void endWait(uint32_t transports);
  uint64_t memoryBytes() const;

  // Memory of callers; see Transport.
  bool usesLentMemory(uint32_t transports) const { return thatUseLentMemory(transports) != 0; }
  bool usesGpuMemory(uint32_t transports) const {
    return those(transports, &RegionAccess::usesGpuMemory) != 0;
  }
  // The transports among them that use lent memory.
  uint32_t thatUseLentMemory(uint32_t transports) const {
    return those(transports, &RegionAccess::usesLentMemory);
  }
  uint32_t thatUseOrdinaryMemory(uint32_t transports) const {
    return those(transports, &RegionAccess::usesOrdinaryMemory);
  }
  void lend(uint32_t transports, const Region& region);
  void takeBack(uint32_t transports, const Region& region);
  void forget(uint64_t region);
  DataMoved dataMoved() const;

 private:
  // A link and its transport. A value.
  struct Made {
    Link* link = nullptr;
    int transport = -1;
  };
  Status nothingShared(int peer) const;
  Result<Made> connect(LinkUse use, int peer, int transport);
  // Connects by the next transport after the first has given up.
  Result<Made> connectOtherwise(LinkUse use, int peer);
  // Replaces links that a transport gave up while they were being established.
  Status replaceGivenUp();
  uint32_t those(uint32_t transports, bool (RegionAccess::*are)() const) const;
  Made& made(LinkUse use, int peer) { return links_[static_cast<size_t>(use)][static_cast<size_t>(peer)]; }
  Link* at(LinkUse use, int peer) const {
    return links_[static_cast<size_t>(use)][static_cast<size_t>(peer)].link;
  }

  int rank_;
  std::vector<LinkShape> shapes_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<RegionAccess*> regions_;  // by transport; null where it has none
  AddressTable addresses_;
  std::vector<int> transport_of_rank_, next_of_rank_;
  std::vector<Made> links_[kLinkUses];  // by rank; null: none yet
  struct Place {
    LinkUse use;
    int peer;
  };
  std::vector<Place> all_;        // links that were begun
  std::vector<Place> coming_up_;  // those that their transport may still give up
  uint32_t took_over_ = 0;        // bits of transports that took over links
};

}  // namespace horing
