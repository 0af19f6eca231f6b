#pragma once
// Slots in the caller's memory, so that messages are sent from it and received into it without a copy.
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/transport.h"

namespace horing {

class CallersSlotsSender {
 public:
  // Before the first message: uses `memory` as contiguous slots, of the link's number and size, aligned to 64 bytes. The caller keeps the
  // memory until the link is destroyed, since messages without a credit may be retransmitted. The caller at the other end must call
  // useSlots(), too, before a message can be sent. Where Transport::regions() uses lent memory, `memory` must be lent. False: the transport
  // uses its own slots.
  virtual bool useSlots(std::span<std::byte> memory, MemoryOf of = MemoryOf::kHost) = 0;
  // The number of messages that the receiver has released: their slots are free.
  virtual uint64_t acknowledged() const = 0;

 protected:
  ~CallersSlotsSender() = default;
};

class CallersSlotsReceiver {
 public:
  // As for the sender, before the first message has arrived. Message::data tells whether a message is in this memory: always, if the
  // sender's caller called useSlots(), too.
  virtual bool useSlots(std::span<std::byte> memory, MemoryOf of = MemoryOf::kHost) = 0;
  // The message `ahead` places behind the oldest, or nullptr while it has not arrived. Does not consume it.
  virtual const Message* tryPeekAhead(uint64_t ahead) = 0;

 protected:
  ~CallersSlotsReceiver() = default;
};

}  // namespace horing
