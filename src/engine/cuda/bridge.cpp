#include "engine/cuda/bridge.h"

#include <cstring>

#include "base/check.h"

namespace horing::cuda {

namespace {
// The slots of an unused queue: each message then has the same slot number here and in the connection.
std::span<std::byte> slotsOf(const Port& end) {
  HORING_CHECK(end.count == 0);
  return {end.slots, static_cast<size_t>(end.slot_count) * end.slot_bytes};
}
// Null: the transport uses its own slots.
template <typename CallersSlots>
CallersSlots* withSlots(CallersSlots* callers, const Port& end, MemoryOf slots) {
  return callers && callers->useSlots(slotsOf(end), slots) ? callers : nullptr;
}
}  // namespace

OutgoingBridge::OutgoingBridge(const Port& end, Sender& sender, MemoryOf slots)
    : end_(end), sender_(sender), callers_(withSlots(sender.callersSlots(), end, slots)) {}

bool OutgoingBridge::poll() {
  bool moved = callers_ && release();
  while (end_.canReceive()) {
    std::byte* const slot = sender_.tryAcquire(kWholeSlot);
    if (!slot) break;
    const SlotLabel label = end_.labels[end_.slot];
    HORING_CHECK_LE(label.bytes, end_.slot_bytes);
    if (!callers_) std::memcpy(slot, end_.data(), label.bytes);
    sender_.post(static_cast<uint32_t>(label.bytes), label.tag);
    if (callers_)
      end_.pass();
    else
      end_.advance();
    moved = true;
  }
  return moved;
}

bool OutgoingBridge::release() {
  const uint64_t free = callers_->acknowledged();
  if (free == released_) return false;
  storeRelease(end_.mine, released_ = free);
  return true;
}

IncomingBridge::IncomingBridge(const Port& end, Receiver& receiver, MemoryOf slots)
    : end_(end),
      receiver_(receiver),
      slots_(slots),
      callers_(withSlots(receiver.callersSlots(), end, slots)) {}

bool IncomingBridge::poll() {
  bool moved = callers_ && release();
  while (end_.canSend()) {
    const Message* const message =
        callers_ ? callers_->tryPeekAhead(end_.count - released_) : receiver_.tryPeek();
    if (!message) break;
    HORING_CHECK_LE(message->bytes, end_.slot_bytes);
    if (message->data != end_.data() && !copy(*message)) break;
    end_.labels[end_.slot] = {message->tag, message->bytes};
    end_.advance();
    if (!callers_) receiver_.release();
    moved = true;
  }
  return moved;
}

// A peer sends only once it knows the address of the slots.
bool IncomingBridge::copy(const Message& message) {
  if (slots_ == MemoryOf::kHost) {
    std::memcpy(end_.data(), message.data, message.bytes);
  } else {
    status_ = makeStatus(Code::kRemoteError,
                         "a message of %u bytes for a GPU arrived in host memory; this is a bug of horing",
                         message.bytes);
  }
  return status_.ok();
}

bool IncomingBridge::release() {
  const uint64_t free = loadAcquire(end_.theirs);
  if (free == released_) return false;
  for (; released_ != free; ++released_) receiver_.release();
  return true;
}

}  // namespace horing::cuda
