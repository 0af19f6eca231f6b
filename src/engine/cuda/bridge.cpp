#include "engine/cuda/bridge.h"

#include <cstring>

#include "base/check.h"

namespace horing::cuda {

bool OutgoingBridge::poll() {
  bool moved = false;
  while (end_.canReceive()) {
    std::byte* const slot = sender_.tryAcquire();
    if (!slot) break;
    const SlotLabel label = end_.labels[end_.slot];
    HORING_CHECK_LE(label.bytes, end_.slot_bytes);
    std::memcpy(slot, end_.data(), label.bytes);
    sender_.post(static_cast<uint32_t>(label.bytes), label.tag);
    end_.advance();
    moved = true;
  }
  return moved;
}

bool IncomingBridge::poll() {
  bool moved = false;
  while (end_.canSend()) {
    const Message* const message = receiver_.tryPeek();
    if (!message) break;
    HORING_CHECK_LE(message->bytes, end_.slot_bytes);
    std::memcpy(end_.data(), message->data, message->bytes);
    end_.labels[end_.slot] = {message->tag, message->bytes};
    end_.advance();
    receiver_.release();
    moved = true;
  }
  return moved;
}

}  // namespace horing::cuda
