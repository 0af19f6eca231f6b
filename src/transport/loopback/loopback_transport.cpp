#include "transport/loopback/loopback_transport.h"

#include <cstring>
#include <vector>

#include "transport/link_shape.h"
#include "transport/slots/slot_link.h"

namespace horing {
namespace {

struct LoopbackAddress {
  char magic[8];  // "horingL1"
  LoopbackNonce nonce;
  int32_t rank;
};
static_assert(sizeof(LoopbackAddress) <= kMaxAddressBytes && std::is_trivially_copyable_v<LoopbackAddress>);
constexpr char kMagic[9] = "horingL1";

// One link and its state.
struct LoopbackLink {
  LoopbackLink(const SlotLinkState& state, const LinkShape& shape, std::shared_ptr<LoopbackPair> both)
      : link(state, shape, "loopback"), pair(std::move(both)) {}
  SlotLink link;
  std::shared_ptr<LoopbackPair> pair;
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackHub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), bell_(hub_->bell(rank)) {}
  ~LoopbackTransport() override;

  const char* name() const override { return "loopback"; }
  std::vector<std::byte> address() const override;
  bool canReach(std::span<const std::byte> peer_address) const override;
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                        int number) override;
  Status progress() override;
  void beginWait() override { bell_.beginWait(); }
  int waitFd() const override { return bell_.fd(); }
  void endWait() override { bell_.endWait(); }
  uint64_t memoryBytes() const override;
  RegionAccess* regions() override { return nullptr; }

 private:
  // The rank of an address, or -1 if it is not of this hub.
  int rankOf(std::span<const std::byte> peer_address) const;
  // Drives the handshake; whether it is over, successful or not.
  bool settle(LoopbackLink& entry);

  std::shared_ptr<LoopbackHub> hub_;
  int rank_;
  Doorbell bell_;
  std::vector<std::unique_ptr<LoopbackLink>> links_;
  std::vector<LoopbackLink*> pending_;  // links of links_ in the handshake
  Status first_error_;
};

LoopbackTransport::~LoopbackTransport() {
  for (auto& entry : links_) {
    const int peer = entry->link.peer();
    hub_->forget(rank_, peer, entry->link.number(), entry->pair.get());
    // release: pairs with the acquire in SlotLinkState::peerDeparted().
    entry->pair->end(rank_, peer).departed.store(1, std::memory_order_release);
    hub_->button(peer).press();
  }
  hub_->vacate(rank_);
}

std::vector<std::byte> LoopbackTransport::address() const {
  LoopbackAddress address{};
  std::memcpy(address.magic, kMagic, sizeof address.magic);
  address.nonce = hub_->nonce();
  address.rank = rank_;
  std::vector<std::byte> bytes(sizeof address);
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

int LoopbackTransport::rankOf(std::span<const std::byte> peer_address) const {
  LoopbackAddress address;
  if (peer_address.size() != sizeof address) return -1;
  std::memcpy(&address, peer_address.data(), sizeof address);
  if (std::memcmp(address.magic, kMagic, sizeof address.magic) != 0 || address.nonce != hub_->nonce())
    return -1;
  return address.rank >= 0 && address.rank < hub_->ranks() ? address.rank : -1;
}

bool LoopbackTransport::canReach(std::span<const std::byte> peer_address) const {
  return rankOf(peer_address) >= 0;
}

Result<Link*> LoopbackTransport::connect(int peer, std::span<const std::byte> peer_address,
                                         const LinkShape& shape, int number) {
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(number));
  if (peer == rank_ || rankOf(peer_address) != peer) {
    return makeStatus(Code::kInvalidArgument,
                      "rank %d, loopback: this is not the address of a rank %d in this process", rank_, peer);
  }
  for (const auto& entry : links_) {
    if (entry->link.peer() == peer && entry->link.number() == number) {
      return makeStatus(Code::kInvalidUsage, "rank %d has a loopback link %d to rank %d already", rank_,
                        number, peer);
    }
  }
  links_.push_back(std::make_unique<LoopbackLink>(SlotLinkState(rank_, peer, number, &first_error_), shape,
                                                  hub_->join(rank_, peer, number, shape)));
  pending_.push_back(links_.back().get());
  hub_->button(peer).press();
  return &links_.back()->link;
}

bool LoopbackTransport::settle(LoopbackLink& entry) {
  SlotLink& link = entry.link;
  LoopbackEnd& theirs = entry.pair->end(link.peer(), rank_);
  // acquire: pairs with the release in LoopbackHub::join().
  if (theirs.joined.load(std::memory_order_acquire) == 0) return false;
  if (theirs.shape != link.shape()) {
    link.state().fail(linkShapeMismatch(rank_, link.shape(), link.peer(), theirs.shape));
    return true;
  }
  link.establish({.inbound = entry.pair->end(rank_, link.peer()).inbound,
                  .outbound = theirs.inbound,
                  .peer_bell = hub_->button(link.peer()),
                  .peer_departed = &theirs.departed});
  return true;
}

Status LoopbackTransport::progress() {
  if (!pending_.empty()) {
    std::erase_if(pending_, [this](LoopbackLink* entry) { return settle(*entry); });
  }
  return first_error_;
}

uint64_t LoopbackTransport::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& entry : links_) bytes += entry->link.memoryBytes();
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Transport>> makeLoopbackTransport(std::shared_ptr<LoopbackHub> hub, int rank) {
  HORING_TRY(hub->occupy(rank));
  return std::unique_ptr<Transport>(std::make_unique<LoopbackTransport>(std::move(hub), rank));
}

}  // namespace horing
