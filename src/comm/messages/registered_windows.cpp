#include "comm/messages/registered_windows.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/fields.h"
#include "base/no_memory.h"
#include "comm/links/links_coming_up.h"

namespace horing {

namespace {

constexpr std::chrono::milliseconds kLook{1};

// What a rank tells the others of its window.
struct WindowOffer {
  uint64_t number = 0;
  uint64_t bytes = 0;  // 0: nobody can put into it
  bool on_gpu = false;
};
void fields(auto& wire, Is<WindowOffer> auto& offer) {
  auto& [number, bytes, on_gpu] = offer;
  wire.numbers(number, bytes, on_gpu);
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

Result<void*> RegisteredWindows::open(std::byte* memory, size_t bytes, const OpenParts& open_parts) {
  Window window{.memory = memory};
  HORING_ASSIGN(const bool is_of_one_kind, begin(window, bytes, open_parts != nullptr));
  if (is_of_one_kind && open_parts) {
    // Outside of the guard: it has steps of its own.
    Result<PartsOnGpus> parts = open_parts(window.bytes);
    if (!parts.ok()) return withdraw(window, parts.status());
    window.on_gpus = parts.take();
  }
  if (!is_of_one_kind || (open_parts && window.on_gpus.begins.empty())) return withdraw(window, {});
  return complete(window);
}

Result<bool> RegisteredWindows::begin(Window& window, size_t bytes, bool on_gpu) {
  const ExclusiveUse exclusive = parts_.guard.enter();
  if (!exclusive.owns()) return parts_.guard.occupied();
  HORING_TRY(parts_.guard.mayBegin());
  window.number = ++last_;
  Result<bool> agreed = Status(noMemory());
  const Status status = withoutExceptions([&]() -> Status {
    // First, since a rank that has agreed may put at once where links exist. Only its signals come here for memory of a GPU.
    if (window.memory) puts().openWindow(window.number, window.memory, on_gpu ? 0 : bytes);
    agreed = agree(window, window.memory ? bytes : 0, on_gpu);
    return agreed.status();
  });
  if (status.ok()) return agreed;
  [[maybe_unused]] const Status stopped = stopPuts(window);
  return parts_.guard.fail(status);
}

template <typename Step>
Result<void*> RegisteredWindows::onceInside(const Step& step) const {
  const Deadline deadline = Deadline::after(parts_.clock, parts_.timeout_ms);
  for (;;) {
    const ExclusiveUse exclusive = parts_.guard.enter();
    if (exclusive.owns()) return step();
    if (deadline.passed()) return parts_.guard.occupied();
    std::this_thread::sleep_for(kLook);
  }
}

Result<void*> RegisteredWindows::complete(const Window& window) {
  return onceInside([&]() -> Result<void*> {
    void* handle = nullptr;
    const Status status = withoutExceptions([&]() -> Status {
      HORING_TRY(parts_.guard.mayBegin());
      HORING_TRY(listen(window));
      handle = handles_.add(window);
      return {};
    });
    if (handle) return handle;
    [[maybe_unused]] const Status stopped = stopPuts(window);
    return parts_.guard.fail(status);
  });
}

Result<void*> RegisteredWindows::withdraw(const Window& window, Status status) {
  return onceInside([&]() -> Result<void*> {
    const Status stopped = stopPuts(window);
    if (status.ok()) status = stopped;
    if (!status.ok()) return parts_.guard.fail(status);
    return nullptr;
  });
}

Result<bool> RegisteredWindows::agree(Window& window, size_t bytes, bool on_gpu) {
  const WindowOffer mine{window.number, bytes, on_gpu};
  HORING_ASSIGN(const auto offers,
                parts_.guard.allGather(encodeFields(mine), membership_.config().init_timeout_ms,
                                       "horingCommWindowRegister"));
  bool is_of_one_kind = true;
  for (const std::vector<std::byte>& offer : offers) {
    WindowOffer theirs;
    if (!decodeFields(offer, theirs) || theirs.number != window.number)
      return makeStatus(Code::kInvalidUsage,
                        "rank %d registers its window %llu with the communicator, and rank %zu another "
                        "one: all ranks register their windows in the same order",
                        membership_.rank(), static_cast<unsigned long long>(window.number),
                        window.bytes.size());
    window.bytes.push_back(theirs.bytes);
    is_of_one_kind &= theirs.on_gpu == on_gpu;
  }
  return is_of_one_kind && window.isWhole();
}

// Returns when all links are up, so that a put needs nothing of its target but progress.
Status RegisteredWindows::listen(const Window& window) {
  const LinkSet links = linksToAll(membership_);
  HORING_TRY(parts_.connector.begin(links));
  const uint32_t transports = parts_.connector.transportsOf(links);
  puts().listen(links.peers);
  const uint64_t own_bytes = window.bytes[static_cast<size_t>(membership_.rank())];
  if (window.on_gpus.begins.empty())
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
