#include "transport/shm/link.h"

#include <atomic>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/mapping.h"
#include "base/per_process.h"
#include "transport/link_shape.h"
#include "transport/shm/shm_transport.h"

namespace horing {
namespace {

std::string rowSuffix(int sender, int number) {
  return formatString(".from-%d-%d", sender, number);
}

Status notARow(const std::string& path) {
  return makeStatus(Code::kRemoteError, "%s was not made by a peer of this version", path.c_str());
}

// Refuses everything that a peer of this version would not have written.
Status checkRow(const RowHeader& row, const LinkShape& shape, uint64_t bytes, const std::string& path) {
  if (std::memcmp(row.magic.data(), kShmMagic, sizeof kShmMagic) == 0 && checkLinkShape(shape).ok() &&
      bytes == shmLinkBytes(shape)) {
    return {};
  }
  return notARow(path);
}

// What files with holes may still take of the directory.
struct Promised {
  std::atomic<uint64_t> bytes{0};  // in this process, which stands for the others of its node
  std::atomic<size_t> ranks{1};    // the most that any of its communicators has in a node
};

// What all links of this node may still take, if its other processes have promised as much.
uint64_t promisedBytes(const ShmSelf& self) {
  auto& promised = perProcess<Promised>();
  size_t ranks = promised.ranks.load(std::memory_order_relaxed);
  while (ranks < self.linked_ranks && !promised.ranks.compare_exchange_weak(ranks, self.linked_ranks)) {
  }
  return promised.bytes * promised.ranks;
}

// The file for slots that a peer sends into.
Result<ShmFile> createRow(const ShmSelf& self, const std::string& path, const LinkShape& shape,
                          const std::string& purpose) {
  const uint64_t bytes = shmLinkBytes(shape);
  const uint64_t promised = promisedBytes(self);
  const uint64_t free = freeBytes(self.directory).value_or(UINT64_MAX);
  if (self.can_populate && free > self.ample_bytes &&
      free - self.ample_bytes >= promised + bytes * self.linked_ranks) {
    Result<ShmFile> file = createShmFileWithHoles(path, bytes, purpose);
    std::byte* const data = file.ok() ? file.value().map.data() : nullptr;
    if (data && populatePages(data, sizeof(RowHeader)) &&
        populateSlotRowHeaders(data + sizeof(RowHeader), shape))
      return file;
  }
  return createShmFile(path, bytes, promised + kSpareBytes, purpose);
}

}  // namespace

uint64_t shmLinkBytes(const LinkShape& shape) {
  constexpr uint64_t kPage = 4096;
  return (sizeof(RowHeader) + slotRowBytes(shape) + kPage - 1) / kPage * kPage;
}

Result<std::unique_ptr<ShmLink>> ShmLink::begin(ShmSelf* self, const ShmAddress& peer, const LinkShape& shape,
                                                int number) {
  HORING_ASSIGN(ShmPeer opened, ShmPeer::open(self->directory, self->address, peer));
  const std::string path = self->path(rowSuffix(peer.rank, number));
  HORING_ASSIGN(ShmFile inbound, createRow(*self, path, shape,
                                           formatString("rank %d's link %d to rank %d (%s)", self->rank(),
                                                        number, peer.rank, linkShapeText(shape).c_str())));
  auto* header = new (inbound.map.data()) RowHeader{};
  std::memcpy(header->magic.data(), kShmMagic, sizeof kShmMagic);
  header->owner = self->rank();
  header->sender = peer.rank;
  header->owner_shape = shape;
  header->has_holes = inbound.has_holes ? 1 : 0;
  formatSlotRow(inbound.map.data() + sizeof(RowHeader), shape);
  // release: pairs with the acquire in openOutbound() of the peer.
  header->state.store(RowState::kWaiting, std::memory_order_release);
  HORING_TRY(publish(inbound, path));
  std::unique_ptr<ShmLink> link(
      new ShmLink(self, SlotLinkState(self->rank(), peer.rank, number, &self->first_error), shape,
                  std::move(opened), std::move(inbound)));
  // Already now, since the peer may leave before the link is established.
  link->link_.state().watch(&link->peer_.departed());
  return link;
}

ShmLink::ShmLink(ShmSelf* self, SlotLinkState state, const LinkShape& shape, ShmPeer peer, ShmFile inbound)
    : self_(self),
      link_(std::move(state), shape, "shm " + self->directory),
      peer_(std::move(peer)),
      inbound_(std::move(inbound)) {
  if (inbound_.has_holes) perProcess<Promised>().bytes += inbound_.map.bytes();
}

ShmLink::~ShmLink() {
  dropInbound();
}

void ShmLink::dropInbound() {
  if (inbound_.has_holes) perProcess<Promised>().bytes -= inbound_.map.bytes();
  inbound_ = {};
}

RowState ShmLink::answer() const {
  // acquire: pairs with the release in openOutbound() of the peer.
  return inboundHeader().state.load(std::memory_order_acquire);
}

Result<bool> ShmLink::openOutbound() {
  const std::string path = self_->directory + "/" + peer_.stem() + rowSuffix(self_->rank(), link_.number());
  HORING_ASSIGN(const Fd fd, openShmMemory(path));
  if (!fd.valid()) return false;
  HORING_ASSIGN(const uint64_t bytes, shmFileBytes(fd.get(), path));
  if (bytes < sizeof(RowHeader) || bytes > shmLinkBytes({kMaxLinkChannels, 2, kMaxSlotBytes, kMaxSlots})) {
    return makeStatus(Code::kRemoteError, "%s has an impossible size", path.c_str());
  }
  HORING_ASSIGN(outbound_, mapShmFile(fd.get(), bytes, path));
  auto& header = *reinterpret_cast<RowHeader*>(outbound_.data());
  // acquire: pairs with the release in begin() of the peer.
  if (header.state.load(std::memory_order_acquire) != RowState::kWaiting) return notARow(path);
  const LinkShape theirs = header.owner_shape;  // copied, so that the checked value is the used value
  HORING_TRY(checkRow(header, theirs, bytes, path));
  const bool agreed = theirs == link_.shape();
  header.sender_shape = link_.shape();
  has_holes_ = header.has_holes != 0;
  // release: pairs with the acquire in answer() of the peer.
  header.state.store(agreed ? RowState::kMapped : RowState::kRefused, std::memory_order_release);
  ring();
  if (!agreed) return linkShapeMismatch(self_->rank(), link_.shape(), link_.peer(), theirs);
  return true;
}

void ShmLink::giveUp() {
  self_->given_up->set(link_.peer());
  link_.giveUp();
  dropInbound();
}

bool ShmLink::settle() {
  SlotLinkState& state = link_.state();
  // Read before the answer: the peer has answered what it opened before it gave up, so both ends reach the same result.
  const bool peer_gave_up = peer_.hasGivenUp(self_->rank());
  // Before anything else: a peer that leaves has written its answer first. acquire: pairs with
  // ~ShmTransport().
  const bool departed = peer_.departed().load(std::memory_order_acquire) != 0;
  const RowState answered = answer();
  const bool has_given_up = outbound_.data() == nullptr && self_->given_up->has(link_.peer());
  if (has_given_up || (peer_gave_up && answered == RowState::kWaiting)) {
    giveUp();
    return true;
  }
  if (answered == RowState::kRefused) {
    state.fail(linkShapeMismatch(self_->rank(), link_.shape(), link_.peer(), inboundHeader().sender_shape));
  } else if (outbound_.data() == nullptr && state.status().ok()) {
    Result<bool> opened = openOutbound();
    if (!opened.ok() && self_->hasOtherRights()) {
      giveUp();
      return true;
    }
    if (!opened.ok()) state.fail(opened.status());
  }
  if (answered == RowState::kMapped) {
    inbound_.name.remove();
    inbound_.fd.reset();
  }
  if (state.status().ok() && outbound_.data() != nullptr && answered == RowState::kMapped) {
    link_.establish({.inbound = inbound_.map.data() + sizeof(RowHeader),
                     .outbound = outbound_.data() + sizeof(RowHeader),
                     .has_holes = has_holes_,
                     .peer_bell = peer_.button(),
                     .peer_departed = &peer_.departed()});
    return true;
  }
  if (departed) state.failDeparted();
  return !state.status().ok();
}

bool ShmLink::failIfPeerDied() {
  if (!link_.status().ok() || !peer_.died()) return false;
  link_.state().fail(makeStatus(
      Code::kRemoteError,
      "rank %d lost rank %d: its process (pid %d) ended without a goodbye. It was killed or crashed; "
      "look at its output and at the kernel log",
      self_->rank(), link_.peer(), peer_.pid()));
  return true;
}

}  // namespace horing
