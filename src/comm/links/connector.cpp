#include "comm/links/connector.h"

#include <algorithm>
#include <utility>

#include "comm/links/link_shape.h"

namespace horing {

namespace {
template <typename Action>
void forEachBit(uint32_t bits, Action action) {
  for (size_t index = 0; bits != 0; ++index, bits >>= 1)
    if (bits & 1) action(index);
}
}  // namespace

Connector::Connector(int rank, std::vector<LinkShape> shapes,
                     std::vector<std::unique_ptr<Transport>> transports)
    : rank_(rank), shapes_(std::move(shapes)), transports_(std::move(transports)) {
  for (const auto& transport : transports_) regions_.push_back(transport->regions());
}

std::vector<std::vector<std::byte>> Connector::addresses() const {
  std::vector<std::vector<std::byte>> all;
  for (const auto& transport : transports_) all.push_back(transport->address());
  return all;
}

bool Connector::canReach(int peer, size_t transport) const {
  const auto& theirs = addresses_[static_cast<size_t>(peer)];
  return transport < theirs.size() && !theirs[transport].empty() &&
         transports_[transport]->canReach(theirs[transport]);
}

std::string Connector::whyUnreachable(int peer, size_t transport) const {
  const auto& theirs = addresses_[static_cast<size_t>(peer)];
  if (transport >= theirs.size() || theirs[transport].empty())
    return formatString("rank %d has no %s", peer, transports_[transport]->name());
  return transports_[transport]->whyUnreachable(theirs[transport]);
}

Status Connector::nothingShared(int peer) const {
  std::string reasons;
  for (size_t t = 0; t < transports_.size(); ++t)
    if (const std::string why = whyUnreachable(peer, t); !why.empty())
      reasons += formatString("; %s: %s", transports_[t]->name(), why.c_str());
  return makeStatus(
      Code::kSystemError,
      "rank %d and rank %d share no transport: HORING_TRANSPORTS must name one that reaches both "
      "(shm inside a node, verbs where both have RDMA, socket anywhere)%s",
      rank_, peer, reasons.c_str());
}

Status Connector::begin(const LinkSet& links) {
  auto& by_rank = links_[static_cast<size_t>(links.use)];
  by_rank.resize(addresses_.size());
  for (const int peer : links.peers) {
    Made& made = by_rank[static_cast<size_t>(peer)];
    if (made.link) continue;
    const int choice = choiceFor(peer);
    if (choice < 0) return nothingShared(peer);
    HORING_ASSIGN(made, connect(links.use, peer, choice));
    if (!made.link) {
      HORING_ASSIGN(made, connectOtherwise(links.use, peer));
    } else if (!made.link->established()) {
      coming_up_.push_back({links.use, peer});
    }
    if (made.link) all_.push_back({links.use, peer});
  }
  return {};
}

Result<Connector::Made> Connector::connect(LinkUse use, int peer, int transport) {
  const auto index = static_cast<size_t>(transport);
  const LinkShape shape = use >= LinkUse::kPointToPoint ? messageShapeOf(shapes_[index]) : shapes_[index];
  HORING_ASSIGN(Link* const link,
                transports_[index]->connect(peer, addresses_[static_cast<size_t>(peer)][index], shape,
                                            static_cast<int>(use)));
  return Made{link, transport};
}

Result<Connector::Made> Connector::connectOtherwise(LinkUse use, int peer) {
  const int first = choiceFor(peer);
  const int next = next_of_rank_.empty() ? -1 : next_of_rank_[static_cast<size_t>(peer)];
  if (next < 0)
    return makeStatus(
        Code::kSystemError,
        "rank %d and rank %d can no longer reach each other by %s, since one of them has changed its "
        "rights, and share no other transport; with socket behind it in HORING_TRANSPORTS, sockets "
        "serve instead",
        rank_, peer, transports_[static_cast<size_t>(first)]->name());
  took_over_ |= 1u << next;
  return connect(use, peer, next);
}

Status Connector::replaceGivenUp() {
  Status first;
  std::erase_if(coming_up_, [&](const Place& place) {
    Made& one = made(place.use, place.peer);
    if (one.link->givenUp() && first.ok()) {
      Result<Made> other = connectOtherwise(place.use, place.peer);
      first = other.status();
      if (other.ok()) one = other.value();
      return other.ok();
    }
    return one.link->established() || !one.link->status().ok();
  });
  return first;
}

bool Connector::established(const LinkSet& links) const {
  for (const int peer : links.peers)
    if (!at(links.use, peer)->established()) return false;
  return true;
}

bool Connector::isMending() const {
  return std::ranges::any_of(all_,
                             [this](const Place& place) { return at(place.use, place.peer)->isMending(); });
}

void Connector::addUnderWay(PeerWaits& waits) const {
  for (const Place& place : all_)
    if (at(place.use, place.peer)->hasUnderWay()) waits.add({.peer = place.peer, .for_room = true});
}

std::string Connector::describeMissing(const LinkSet& links) const {
  std::string text;
  for (const int peer : missing(links))
    text += formatString("%srank %d (%s)", text.empty() ? "" : ", ", peer,
                         at(links.use, peer)->describe().c_str());
  return text;
}

std::vector<int32_t> Connector::missing(const LinkSet& links) const {
  std::vector<int32_t> ranks;
  for (const int peer : links.peers)
    if (!at(links.use, peer)->established()) ranks.push_back(peer);
  return ranks;
}

size_t Connector::indexOf(std::string_view name) const {
  size_t index = 0;
  while (index < transports_.size() && transports_[index]->name() != name) ++index;
  return index;
}

bool Connector::has(std::string_view name) const {
  const size_t index = indexOf(name);
  return index < transports_.size() && !transports_[index]->address().empty();
}

uint32_t Connector::chosenTransports() const {
  uint32_t bits = 0;
  for (const int choice : transport_of_rank_)
    if (choice >= 0) bits |= 1u << choice;
  return bits;
}

uint32_t Connector::transportsOf(const LinkSet& links) const {
  uint32_t bits = 0;
  for (const int peer : links.peers)
    bits |= 1u << links_[static_cast<size_t>(links.use)][static_cast<size_t>(peer)].transport;
  return bits;
}

Status Connector::progress(uint32_t transports) {
  Status first;
  forEachBit(transports | took_over_, [&](size_t index) {
    Status status = transports_[index]->progress();
    if (first.ok()) first = std::move(status);
  });
  if (!coming_up_.empty() && first.ok()) [[unlikely]]
    first = replaceGivenUp();
  return first;
}

void Connector::beginWait(uint32_t transports) {
  forEachBit(transports, [&](size_t index) { transports_[index]->beginWait(); });
}

void Connector::endWait(uint32_t transports) {
  forEachBit(transports, [&](size_t index) { transports_[index]->endWait(); });
}

uint32_t Connector::those(uint32_t transports, bool (RegionAccess::*are)() const) const {
  uint32_t those = 0;
  forEachBit(transports, [&](size_t index) {
    if (regions_[index] && (regions_[index]->*are)()) those |= 1u << index;
  });
  return those;
}

void Connector::lend(uint32_t transports, const Region& region) {
  forEachBit(transports, [&](size_t index) {
    if (regions_[index]) regions_[index]->lend(region);
  });
}

void Connector::takeBack(uint32_t transports, const Region& region) {
  forEachBit(transports, [&](size_t index) {
    if (regions_[index]) regions_[index]->takeBack(region);
  });
}

void Connector::forget(uint64_t region) {
  for (RegionAccess* const regions : regions_)
    if (regions) regions->forget(region);
}

DataMoved Connector::dataMoved() const {
  DataMoved all;
  for (const RegionAccess* const regions : regions_)
    if (regions) all += regions->dataMoved();
  return all;
}

uint64_t Connector::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& transport : transports_) bytes += transport->memoryBytes();
  return bytes;
}

}  // namespace horing
