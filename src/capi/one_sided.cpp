// Windows, puts and signals of include/horing/one_sided.h.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "capi/calls.h"
#include "capi/device_memory.h"
#include "comm/calls/arguments.h"

namespace horing {

namespace {

Status checkZero(const char* name, unsigned int value) {
  if (value == 0) return {};
  return makeStatus(Code::kInvalidArgument, "%s is %u: expected 0", name, value);
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

Status registerWindow(horingComm_t comm, void* buff, size_t size, horingWindow_t* win) {
  HORING_TRY(checkHandle(comm));
  if (!buff || !win)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected %s", buff ? "win" : "buff",
                      buff ? "where to put the window" : "a buffer");
  if (size == 0 || size > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "size is %zu: expected the bytes of buff", size);
  if (comm->communicator->windows().isFull())
    return makeStatus(Code::kInvalidUsage, "%zu windows are registered; that is the limit", kMaxWindows);
  const CudaDriver* const driver = processDriver();
  const bool is_on_gpu = driver && driver->placeOf(buff).kind == MemoryKind::kDevice;
  auto* const memory = is_on_gpu ? nullptr : static_cast<std::byte*>(buff);
  return launch(comm, Command(TaskCommand{[comm, memory, size, win]() -> Status {
                  HORING_ASSIGN(void* const window, comm->communicator->windows().open(memory, size));
                  if (window) ++comm->registrations;
                  *win = static_cast<horingWindow_t>(window);
                  return {};
                }}),
                nullptr);
}

Status deregisterWindow(horingComm_t comm, horingWindow_t win) {
  HORING_TRY(checkHandle(comm));
  if (!win) return {};
  HORING_TRY(comm->communicator->windows().find(win).status());
  return launch(comm, Command(TaskCommand{[comm, win]() -> Status {
                  HORING_TRY(comm->communicator->windows().close(win));
                  --comm->registrations;
                  return {};
                }}),
                nullptr);
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
    return issue(comm, Command(ExchangeCommand{{put}}), stream);
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
