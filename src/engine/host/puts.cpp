// Puts, signals and waits for them: messages that name a place in a window of the receiver, and are taken whatever the receiver does.
#include <cinttypes>
#include <cstring>

#include "engine/host/message_tag.h"
#include "engine/host/point_to_point.h"

namespace horing {

namespace {

// Precedes the data of a put, in a slot of its own; a signal is nothing else.
struct PutHeader {
  uint64_t window;
  uint64_t offset;
  uint64_t bytes;
  uint64_t signal;
};

}  // namespace

void PointToPoint::listen(std::span<const int> peers) {
  listens_ = true;
  for (const int peer : peers)
    if (peer != rank_) flowOf(peer, Transfer::Direction::kReceive);
}

Status PointToPoint::closeWindow(uint64_t window) {
  windows_.close(window);
  for (const Flow& flow : flows_) {
    if (sends(flow) || flow.finished() || !status_.ok()) continue;
    const Transfer& arriving = flow.transfers[flow.current];
    const auto* const put = std::get_if<Transfer::ArrivingPut>(&arriving.kind);
    if (!put || put->window != window) continue;
    status_ =
        makeStatus(Code::kInvalidUsage,
                   "rank %d deregisters a window while a put of rank %d arrives in it, %zu of %zu bytes so "
                   "far: wait for the signals of all puts into a window first",
                   rank_, flow.peer, flow.offset, arriving.bytes);
  }
  return status_;
}

void PointToPoint::awaitSignals(const Transfer& transfer, const Transfer::SignalWait& wait) {
  listen({&transfer.peer, 1});
  signals_.post(transfer);
  noteServed(transfer.peer, wait.signal);
}

void PointToPoint::addPut(const Transfer& transfer, const Transfer::Put& put) {
  // Both ends may send more than fits on the way before either waits.
  listen({&transfer.peer, 1});
  if (transfer.peer != rank_)
    return flowOf(transfer.peer, transfer.direction()).transfers.push_back(transfer);
  std::byte* const place = windows_.find(put.target, transfer.bytes);
  if (transfer.bytes > 0 && !place) {
    status_ = refusePut(rank_, put.target, transfer.bytes);
    return;
  }
  if (transfer.bytes > 0) std::memmove(place, put.input, transfer.bytes);
  noteComplete(nullptr, transfer);
  noteSignal(rank_, put.signal);
}

bool PointToPoint::trySendPutHeader(const Flow& flow, const Transfer::Put& put) {
  const uint64_t bytes = flow.transfers[flow.current].bytes;
  const PutHeader header{put.target.window, put.target.offset, bytes, put.signal};
  return postHeader(flow, std::as_bytes(std::span(&header, 1)), kPutMark);
}

bool PointToPoint::tryReceivePut(Flow& flow, const Message& message) {
  PutHeader header{};
  if (message.bytes == sizeof header) std::memcpy(&header, message.data, sizeof header);
  const PutTarget target{header.window, header.offset};
  const bool is_signal = header.window == 0 && header.offset == 0 && header.bytes == 0;
  std::byte* const place = windows_.find(target, header.bytes);
  const bool is_put = message.bytes == sizeof header && (is_signal || place);
  const bool signals = header.signal != Transfer::kNoSignal;
  if (!is_put || (signals ? !signals_.has(header.signal) : is_signal)) {
    if (status_.ok())
      status_ = is_put ? refuseSignal(flow.peer, header.signal) : refusePut(flow.peer, target, header.bytes);
    return false;
  }
  flow.receiver->release();
  flow.transfers.push_back(
      {.kind = Transfer::ArrivingPut{place, target.window, static_cast<uint32_t>(header.signal)},
       .peer = flow.peer,
       .bytes = static_cast<size_t>(header.bytes)});
  return true;
}

Status PointToPoint::refusePut(int from, const PutTarget& target, uint64_t bytes) const {
  return makeStatus(Code::kInvalidUsage,
                    "rank %d does not take a put of rank %d, %" PRIu64 " bytes to offset %" PRIu64
                    " of window %" PRIu64
                    ": that is not in a window that is registered here (the first that was registered is 1). "
                    "A window is deregistered when the "
                    "signals of all puts into it have been waited for",
                    rank_, from, bytes, target.offset, target.window);
}

Status PointToPoint::refuseSignal(int from, uint64_t signal) const {
  return makeStatus(
      Code::kInvalidUsage,
      "rank %d does not take a signal of rank %d with index %" PRIu64
      ": that is not below numRmaSig of this rank's configuration, which all ranks make the same",
      rank_, from, signal);
}

void PointToPoint::noteSignal(int from, uint32_t signal) {
  if (signal == Transfer::kNoSignal) return;
  signals_.arrive(from, signal);
  noteServed(from, signal);
}

void PointToPoint::noteServed(int from, uint32_t signal) {
  while (const auto served = signals_.takeServed(from, signal)) noteComplete(nullptr, *served);
}

}  // namespace horing
