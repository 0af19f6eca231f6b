#pragma once
// Landings: memory of the receiver's caller into which messages are received, instead of into slots.
//
// Both ends of a connection number the messages that have a landing: the n-th message that the sender acquires by tryAcquireLanding()
// matches the n-th landing that the receiver describes by tryLand(). So both callers must agree on which messages have landings. A
// transport has landings at both ends of its connections, or at neither.
#include <cstddef>
#include <cstdint>

namespace horing {

// Room for `messages` messages, `stride` bytes apart. A message is at most `stride` long and ends within `bytes`.
struct Landing {
  std::byte* memory = nullptr;  // null: these messages arrive in slots
  size_t bytes = 0;
  uint32_t stride = 0;
  uint32_t messages = 0;  // 1 or more
};

class LandingSender {
 public:
  // As Sender::tryAcquire(kWholeSlot), for a message that has a landing. Also nullptr while the receiver has not described it, if
  // awaitsLandings() and this rank lends memory.
  virtual std::byte* tryAcquireLanding() = 0;
  // Whether tryAcquireLanding() may wait for the receiver. Both ends of a connection say the same.
  virtual bool awaitsLandings() const = 0;

 protected:
  ~LandingSender() = default;
};

class LandingReceiver {
 public:
  // Describes the memory for the next messages that have a landing and no description yet. They are received into it if the memory is lent
  // (RegionAccess::lend) and the transport can write it, else into slots; Message::data tells. False: not possible now, call again. A
  // description may come long before its messages. If the sender does not await it, it may also come after them: they are in slots then.
  virtual bool tryLand(const Landing& landing) = 0;
  virtual bool awaitsLandings() const = 0;

 protected:
  ~LandingReceiver() = default;
};

}  // namespace horing
