#pragma once
// Finds a transport to every peer that a plan needs, and keeps the links.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace horing {

// What a rank publishes about its transports, and what it knows of the others'. Index: rank, then transport.
using AddressTable = std::vector<std::vector<std::vector<std::byte>>>;

// Links have a purpose, and those of one purpose are used up by no other. Those for collectives may be several, for each has few channels.
inline constexpr int kCollectiveLinks = 4;
enum class LinkUse : uint8_t { kCollective, kPointToPoint = kCollectiveLinks, kTagged };
constexpr LinkUse collectiveLink(int number) {
  return static_cast<LinkUse>(number);
}
inline constexpr int kLinkUses = kCollectiveLinks + 2;
static_assert(kLinkUses <= kMaxLinksPerPeer / 2,
              "the others may take the place of those that come to nothing");
inline constexpr int kPointToPointChannels = 1;

// The links to these ranks.
struct LinkSet {
  LinkUse use = LinkUse::kCollective;
  std::vector<int> peers;
};

// One thread at a time.
class Connector {
 public:
  // One shape for each transport; point-to-point links have kPointToPointChannels of its channels.
  Connector(int rank, std::vector<LinkShape> shapes, std::vector<std::unique_ptr<Transport>> transports);

  // Addresses of this rank's transports, in their order.
  std::vector<std::vector<std::byte>> addresses() const;
  // For each rank and transport whether this rank can reach it; of use after setAddresses().
  void setAddresses(AddressTable table) { addresses_ = std::move(table); }
  bool canReach(int peer, size_t transport) const;
  // For people: why not, as far as this rank knows.
  std::string whyUnreachable(int peer, size_t transport) const;

  // The first transport by which both ends reach each other, and the one after it, for links that the first gives up; the same choices
  // at both ends. Index per rank, -1: none.
  void setChoices(std::vector<int> transport_of_rank, std::vector<int> next_of_rank = {}) {
    transport_of_rank_ = std::move(transport_of_rank);
    next_of_rank_ = std::move(next_of_rank);
  }
  int choiceFor(int peer) const { return transport_of_rank_[static_cast<size_t>(peer)]; }

  // Starts those links that are not there yet. The caller then calls progress() until established().
  Status begin(const LinkSet& links);
  bool established(const LinkSet& links) const;
  // "rank 3 by shm, rank 5 by socket (connecting to ...)": those of the peers that are not connected.
  std::string describeMissing(const LinkSet& links) const;

  // Those ranks of the peers.
  std::vector<int32_t> missing(const LinkSet& links) const;

  Link& link(LinkUse use, int peer) { return *at(use, peer); }
  const std::vector<std::unique_ptr<Transport>>& transports() const { return transports_; }
  // Of the transport of that name; the number of transports if there is none.
  size_t indexOf(std::string_view name) const;
  uint32_t allTransports() const { return (1u << transports_.size()) - 1; }
  // That reach some peer.
  uint32_t chosenTransports() const;
  // Bits of the transports that the links use.
  uint32_t transportsOf(const LinkSet& links) const;

  // Drives the transports whose bit is set, and those that took over links; see Transport.
  Status progress(uint32_t transports);
  void beginWait(uint32_t transports);
  void endWait(uint32_t transports);
  uint64_t memoryBytes() const;

  // Memory of callers; see Transport.
  bool usesLentMemory(uint32_t transports) const { return thatUseLentMemory(transports) != 0; }
  bool usesGpuMemory(uint32_t transports) const { return those(transports, &Transport::usesGpuMemory) != 0; }
  // Those of them.
  uint32_t thatUseLentMemory(uint32_t transports) const {
    return those(transports, &Transport::usesLentMemory);
  }
  uint32_t thatUseOrdinaryMemory(uint32_t transports) const {
    return those(transports, &Transport::usesOrdinaryMemory);
  }
  void lend(uint32_t transports, const Region& region);
  void takeBack(uint32_t transports, const Region& region);
  void forget(uint64_t region);
  DataMoved dataMoved() const;

 private:
  // A link, and which transport has it. A value.
  struct Made {
    Link* link = nullptr;
    int transport = -1;
  };
  Status nothingShared(int peer) const;
  Result<Made> connect(LinkUse use, int peer, int transport);
  // By the next transport, where the first gives up.
  Result<Made> connectOtherwise(LinkUse use, int peer);
  // Looks after links that are not yet established.
  Status replaceGivenUp();
  uint32_t those(uint32_t transports, bool (Transport::*are)() const) const;
  Made& made(LinkUse use, int peer) { return links_[static_cast<size_t>(use)][static_cast<size_t>(peer)]; }
  Link* at(LinkUse use, int peer) const {
    return links_[static_cast<size_t>(use)][static_cast<size_t>(peer)].link;
  }

  int rank_;
  std::vector<LinkShape> shapes_;
  std::vector<std::unique_ptr<Transport>> transports_;
  AddressTable addresses_;
  std::vector<int> transport_of_rank_, next_of_rank_;
  std::vector<Made> links_[kLinkUses];  // by rank; null: none yet
  struct Place {
    LinkUse use;
    int peer;
  };
  std::vector<Place> coming_up_;  // of links whose transport may still give them up
  uint32_t took_over_ = 0;        // transports
};

}  // namespace horing
