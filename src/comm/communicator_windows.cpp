// Windows: memory of a rank that the other ranks put into.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "comm/communicator.h"
#include "comm/links/links_coming_up.h"

namespace horing {

namespace {

// What a rank tells the others of its window.
using WindowOffer = std::array<uint64_t, 2>;  // number and bytes; bytes 0: nobody can put into it

// The memory of a window is lent as that of a call that lasts as long as the window does.
constexpr uint64_t ticketOf(const Window& window) {
  return uint64_t{1} << 63 | window.number;
}

}  // namespace

LinkSet Communicator::linksToAll() const {
  LinkSet links{LinkUse::kTagged, {}};
  for (int peer = 0; peer < membership_->ranks(); ++peer)
    if (peer != membership_->rank()) links.peers.push_back(peer);
  return links;
}

Result<void*> Communicator::openWindow(std::byte* memory, size_t bytes) {
  Window window{.number = ++last_window_, .memory = memory};
  HORING_TRY(listenToAll(window, bytes));
  // From here on other ranks may put: one that has all offers.
  const Status agreed = withoutExceptions([&]() -> Status {
    HORING_ASSIGN(window.bytes, agreeOnWindow(window, memory ? bytes : 0));
    return connectAll();
  });
  const bool is_open = agreed.ok() && std::ranges::find(window.bytes, 0) == window.bytes.end();
  if (is_open) return windows_.add(std::move(window));
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  const Status closed = close(window);
  if (!agreed.ok()) return agreed;
  if (!closed.ok()) return closed;
  return static_cast<void*>(nullptr);
}

Status Communicator::close(const Window& window) {
  const Status closed = tagged_messages_->operation().closeWindow(window.number);
  reach_->lent().takeBack(/*failed=*/true, ticketOf(window));
  return closed;
}

Status Communicator::listenToAll(const Window& window, size_t bytes) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  const LinkSet links = linksToAll();
  if (const Status begun = connector_->begin(links); !begun.ok()) return guard_->fail(begun);
  tagged_messages_->operation().listen(links.peers);
  if (!window.memory) return {};
  tagged_messages_->operation().openWindow(window.number, window.memory, bytes);
  reach_->lent().lendWindow(connector_->transportsOf(links), window.memory, bytes, ticketOf(window));
  return {};
}

Result<std::vector<uint64_t>> Communicator::agreeOnWindow(const Window& window, size_t bytes) {
  const WindowOffer mine{window.number, bytes};
  HORING_ASSIGN(const auto offers, allGather(std::as_bytes(std::span(mine)), "horingCommWindowRegister"));
  std::vector<uint64_t> bytes_of_rank;
  for (const std::vector<std::byte>& offer : offers) {
    WindowOffer theirs{};
    if (offer.size() == sizeof theirs) std::memcpy(theirs.data(), offer.data(), sizeof theirs);
    if (theirs[0] != window.number)
      return breakOff(makeStatus(
          Code::kInvalidUsage,
          "rank %d registers its window %llu with the communicator, and rank %zu another "
          "one: all ranks register their windows in the same order",
          membership_->rank(), static_cast<unsigned long long>(window.number), bytes_of_rank.size()));
    bytes_of_rank.push_back(theirs[1]);
  }
  return bytes_of_rank;
}

// So that a put needs nothing of its target but progress.
Status Communicator::connectAll() {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  const LinkSet links = linksToAll();
  LinksComingUp coming_up(membership_->rank(), *connector_, links);
  guard_->calls().beginExchange();
  const Status status = withoutExceptions([&] {
    return progress_->drive({.operation = coming_up,
                             .transports = connector_->transportsOf(links),
                             .deadline = Deadline::after(clock_, timeoutMs())});
  });
  guard_->calls().endExchange();
  noteMemory();
  return status.ok() ? status : guard_->fail(status);
}

Status Communicator::closeWindow(const void* handle) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_ASSIGN(const std::shared_ptr<const Window> window, windows_.remove(handle));
  const bool is_well = guard_->mayBegin().ok();
  if (is_well) progress_->driveForOthers();
  const Status closed = close(*window);
  return closed.ok() || !is_well ? Status() : guard_->fail(closed);
}

}  // namespace horing
