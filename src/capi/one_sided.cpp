// Windows, puts and signals of include/horing/one_sided.h.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "capi/calls.h"
#include "capi/device_memory.h"
#include "capi/group.h"
#include "comm/calls/arguments.h"
#include "comm/gpu/bounce_buffers.h"

namespace horing {

namespace {

Status checkZero(const char* name, unsigned int value) {
  if (value == 0) return {};
  return makeStatus(Code::kInvalidArgument, "%s is %u: expected 0", name, value);
}

void closeWindows(horingComm_t comm, int64_t wait_ms, bool awaits_others) {
  const SteadyClock clock;
  comm->queue->closeUnusedWindows(Deadline::after(clock, wait_ms), awaits_others);
}

Status checkSignal(horingComm_t comm, int index, int context, unsigned int flags) {
  HORING_TRY(checkHandle(comm));
  const int signals = comm->communicator->membership().options().signals;
  if (index < 0 || index >= signals)
    return makeStatus(Code::kInvalidArgument,
                      "sigIdx is %d: expected 0 or more, below config.numRmaSig, which is %d", index,
                      signals);
  HORING_TRY(checkZero("ctx", static_cast<unsigned int>(context)));
  return checkZero("flags", flags);
}

struct WindowMemory {
  std::byte* at = nullptr;                     // null: other ranks cannot put into it
  std::shared_ptr<const CudaDevice> device{};  // null: it is in memory of the host
};
// Memory of a GPU that does not serve the communicator is no error, since the other ranks register theirs. Binds nothing.
WindowMemory memoryForWindow(horingComm_t comm, void* buff) {
  auto* const at = static_cast<std::byte*>(buff);
  const CudaDriver* const driver = processDriver();
  const MemoryPlace place = driver ? driver->placeOf(buff) : MemoryPlace{};
  if (place.kind != MemoryKind::kDevice) return {at};
  if (!comm->queue->mayOpenGpuWindows()) return {};
  const auto open = [&]() -> Result<std::shared_ptr<const CudaDevice>> {
    HORING_ASSIGN(std::shared_ptr<const CudaDevice> device, comm->queue->open(*driver, place.device));
    HORING_TRY(device->checkContext(place.context, "buff", buff));
    return device;
  };
  Result<std::shared_ptr<const CudaDevice>> device = open();
  if (device.ok()) return {at, device.take()};
  comm->communicator->membership().log().info("gpu", "no window in memory of GPUs: %s",
                                              device.status().message().c_str());
  return {};
}

Status registerWindow(horingComm_t comm, void* buff, size_t size, horingWindow_t* win) {
  HORING_TRY(checkHandle(comm));
  if (!buff || !win)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected %s", buff ? "win" : "buff",
                      buff ? "where to put the window" : "a buffer");
  if (size == 0 || size > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "size is %zu: expected the bytes of buff", size);
  if (comm->communicator->windows().isFull())
    return makeStatus(Code::kInvalidUsage, "%zu windows are registered; that is the limit", kMaxWindows);
  const WindowMemory memory = memoryForWindow(comm, buff);
  const Status launched =
      launch(comm, Command(TaskCommand{[comm, memory, size, win]() -> Status {
               HORING_ASSIGN(void* const window, comm->queue->openWindow(memory.at, size, memory.device));
               if (window && !memory.device) ++comm->registrations;
               *win = static_cast<horingWindow_t>(window);
               return {};
             }}),
             nullptr);
  if (memory.device) closeWindows(comm, 0, /*awaits_others=*/false);
  return launched;
}

Result<bool> isOnGpus(horingComm_t comm, horingWindow_t win) {
  HORING_ASSIGN(const std::shared_ptr<const Window> window, comm->communicator->windows().find(win));
  return !window->on_gpus.begins.empty();
}

// Windows in memory of GPUs are closed here rather than by the queue's thread, for which streams wait; if they cannot be yet, in a later call.
Status deregisterWindow(horingComm_t comm, horingWindow_t win) {
  const auto has_ended = [&] { return !win || comm->suspended_windows.erase(win) > 0; };
  HORING_TRY(checkAlive(comm));
  if (isSuspended(comm) && has_ended()) return {};
  HORING_TRY(checkHandle(comm));
  if (has_ended()) return {};
  HORING_ASSIGN(const bool on_gpus, isOnGpus(comm, win));
  const Status launched = launch(comm, Command(TaskCommand{[comm, win, on_gpus]() -> Status {
                                   HORING_TRY(comm->communicator->windows().close(win));
                                   if (!on_gpus) --comm->registrations;
                                   return {};
                                 }}),
                                 nullptr);
  if (on_gpus && groupIsOpen())
    closeWindowsAfterGroup(comm);
  else if (on_gpus)
    closeWindows(comm, kLastCopiesMs, /*awaits_others=*/true);
  return launched;
}

// The part of the rank that the put goes to.
Status checkPlace(horingComm_t comm, const Transfer& put, uint64_t offset, const Window& window) {
  const Membership& membership = comm->communicator->membership();
  HORING_TRY(checkTransfer(put, membership.rank(), membership.ranks()));
  const uint64_t size = window.bytes[static_cast<size_t>(put.peer)];
  if (offset <= size && put.bytes <= size - offset) return {};
  return makeStatus(
      Code::kInvalidArgument,
      "a put of %zu bytes to peerWinOffset %llu leaves the window of rank %d, which has %llu bytes",
      put.bytes, static_cast<unsigned long long>(offset), put.peer, static_cast<unsigned long long>(size));
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingCommWindowRegister(horingComm_t comm, void* buff, size_t size, horingWindow_t* win,
                                        int) {
  using namespace horing;
  return guardedLaunch(comm, [&] { return registerWindow(comm, buff, size, win); });
}

horingResult_t horingCommWindowDeregister(horingComm_t comm, horingWindow_t win) {
  using namespace horing;
  return guardedLaunch(comm, [&] { return deregisterWindow(comm, win); });
}

horingResult_t horingWinGetUserPtr(horingComm_t comm, horingWindow_t win, void** outUserPtr) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!outUserPtr)
      return makeStatus(Code::kInvalidArgument, "outUserPtr is NULL: expected where to put the address");
    HORING_ASSIGN(const std::shared_ptr<const Window> window, comm->communicator->windows().find(win));
    *outUserPtr = window->memory;
    return {};
  });
}

horingResult_t horingPutSignal(const void* localbuff, size_t count, horingDataType_t datatype, int peer,
                               horingWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                               unsigned int flags, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    HORING_TRY(checkSignal(comm, sigIdx, ctx, flags));
    HORING_ASSIGN(const std::shared_ptr<const Window> window, comm->communicator->windows().find(peerWin));
    Transfer put{.kind = Transfer::Put{static_cast<const std::byte*>(localbuff),
                                       {window->number, peerWinOffset},
                                       static_cast<uint32_t>(sigIdx)},
                 .peer = peer};
    HORING_ASSIGN(put.bytes, bytesOf(count, datatype));
    put.type = static_cast<DataType>(datatype);
    HORING_TRY(checkPlace(comm, put, peerWinOffset, *window));
    Command command(ExchangeCommand{{put}});
    if (!window->on_gpus.begins.empty()) {
      command.put_at = window->on_gpus.begins[static_cast<size_t>(peer)] + peerWinOffset;
      command.window = window;
    }
    return issue(comm, std::move(command), stream);
  });
}

horingResult_t horingSignal(int peer, int sigIdx, int ctx, unsigned int flags, horingComm_t comm,
                            horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    HORING_TRY(checkSignal(comm, sigIdx, ctx, flags));
    const Transfer signal{.kind = Transfer::Put{.signal = static_cast<uint32_t>(sigIdx)}, .peer = peer};
    return issue(comm, Command(ExchangeCommand{{signal}}), stream);
  });
}

horingResult_t horingWaitSignal(int nDesc, horingWaitSignalDesc_t* signalDescs, horingComm_t comm,
                                horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    if (nDesc < 1 || !signalDescs)
      return makeStatus(Code::kInvalidArgument, "nDesc is %d, signalDescs %p: expected 1 or more descriptors",
                        nDesc, static_cast<void*>(signalDescs));
    std::vector<Transfer> waits;
    for (const horingWaitSignalDesc_t& each : std::span(signalDescs, static_cast<size_t>(nDesc))) {
      HORING_TRY(checkSignal(comm, each.sigIdx, each.ctx, 0));
      if (each.opCnt < 1)
        return makeStatus(Code::kInvalidArgument, "opCnt is %d: expected 1 or more", each.opCnt);
      waits.push_back({.kind = Transfer::SignalWait{static_cast<uint64_t>(each.opCnt),
                                                    static_cast<uint32_t>(each.sigIdx)},
                       .peer = each.peer});
    }
    return issue(comm, Command(ExchangeCommand{std::move(waits)}), stream);
  });
}

}  // extern "C"
