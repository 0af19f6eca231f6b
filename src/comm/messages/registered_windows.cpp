#include "comm/messages/registered_windows.h"

#include <utility>

#include "base/fields.h"
#include "base/no_memory.h"
#include "comm/links/links_coming_up.h"

namespace horing {

namespace {

// What a rank tells the others of its window.
struct WindowOffer {
  uint64_t number = 0;
  uint64_t bytes = 0;  // 0: nobody can put into it
};
void fields(auto& wire, Is<WindowOffer> auto& offer) {
  auto& [number, bytes] = offer;
  wire.numbers(number, bytes);
}

// The memory of a window is lent as that of a call that lasts as long as the window does.
constexpr uint64_t ticketOf(const Window& window) {
  return uint64_t{1} << 63 | window.number;
}

LinkSet linksToAll(const Membership& membership) {
  LinkSet links{LinkUse::kBeside, {}};
  for (int peer = 0; peer < membership.ranks(); ++peer)
    if (peer != membership.rank()) links.peers.push_back(peer);
  return links;
}

}  // namespace

Result<void*> RegisteredWindows::open(std::byte* memory, size_t bytes) {
  const ExclusiveUse exclusive = parts_.guard.enter();
  if (!exclusive.owns()) return parts_.guard.occupied();
  HORING_TRY(parts_.guard.mayBegin());
  Window window{.number = ++last_, .memory = memory};
  void* handle = nullptr;
  Status status = withoutExceptions([&]() -> Status {
    // First, since a rank that has agreed may put at once where links exist.
    if (memory) puts().openWindow(window.number, memory, bytes);
    HORING_ASSIGN(window.bytes, agree(window, memory ? bytes : 0));
    if (!window.isWhole()) return {};
    HORING_TRY(listen(window));
    handle = handles_.add(window);
    return {};
  });
  if (handle) return handle;
  const Status stopped = stopPuts(window);
  if (status.ok()) status = stopped;
  if (!status.ok()) return parts_.guard.fail(status);
  return handle;
}

Result<std::vector<uint64_t>> RegisteredWindows::agree(const Window& window, size_t bytes) {
  const WindowOffer mine{window.number, bytes};
  HORING_ASSIGN(const auto offers,
                parts_.guard.allGather(encodeFields(mine), membership_.config().init_timeout_ms,
                                       "horingCommWindowRegister"));
  std::vector<uint64_t> bytes_of_rank;
  for (const std::vector<std::byte>& offer : offers) {
    WindowOffer theirs;
    if (!decodeFields(offer, theirs) || theirs.number != window.number)
      return makeStatus(Code::kInvalidUsage,
                        "rank %d registers its window %llu with the communicator, and rank %zu another "
                        "one: all ranks register their windows in the same order",
                        membership_.rank(), static_cast<unsigned long long>(window.number),
                        bytes_of_rank.size());
    bytes_of_rank.push_back(theirs.bytes);
  }
  return bytes_of_rank;
}

// Returns when all links are up, so that a put needs nothing of its target but progress.
Status RegisteredWindows::listen(const Window& window) {
  const LinkSet links = linksToAll(membership_);
  HORING_TRY(parts_.connector.begin(links));
  const uint32_t transports = parts_.connector.transportsOf(links);
  puts().listen(links.peers);
  const uint64_t own_bytes = window.bytes[static_cast<size_t>(membership_.rank())];
  parts_.reach.lent().lendWindow(transports, window.memory, own_bytes, ticketOf(window));
  LinksComingUp coming_up(parts_.connector, links, std::nullopt);
  parts_.guard.calls().beginExchange();
  const Status status = withoutExceptions([&] {
    return parts_.progress.drive({.operation = coming_up,
                                  .transports = transports,
                                  .deadline = Deadline::after(parts_.clock, parts_.timeout_ms)});
  });
  parts_.guard.calls().endExchange();
  parts_.links_made();
  return status;
}

Status RegisteredWindows::close(const void* handle) {
  const ExclusiveUse exclusive = parts_.guard.enter();
  if (!exclusive.owns()) return parts_.guard.occupied();
  HORING_ASSIGN(const std::shared_ptr<const Window> window, handles_.remove(handle));
  const bool is_well = parts_.guard.mayBegin().ok();
  if (is_well) parts_.progress.driveForOthers();
  const Status stopped = stopPuts(*window);
  return stopped.ok() || !is_well ? Status() : parts_.guard.fail(stopped);
}

Status RegisteredWindows::stopPuts(const Window& window) {
  const Status stopped = puts().closeWindow(window.number);
  parts_.reach.lent().takeBack(/*failed=*/true, ticketOf(window));
  return stopped;
}

}  // namespace horing
