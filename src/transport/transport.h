#pragma once
// The interface of transports, which move bytes between two ranks. transport/README.md says how to add one.
//
// A *link* joins this rank and one peer over one transport. It has a few *channels*, numbered from 0 (the plan maps the lanes
// of a schedule onto them, see engine/host/plan.h), and each channel is two *connections*, one in each direction: here a
// sender and a receiver. A connection is a first-in-first-out queue of `slots` slots of `slot_bytes` bytes with credits. The
// sender fills a free slot and posts it; the receiver peeks at the oldest slot, uses it in place and releases it, which
// returns the credit. Several links may join the same two ranks; they differ in their *number* and share nothing.
//
// Optional capabilities are separate interfaces (landings.h, lent_memory.h, callers_slots.h, shared_slots.h). Senders, receivers and
// transports return a pointer to each, or nullptr. The pointer never changes, so callers query once and keep it. Every function is pure
// virtual: a decorator that forgets one does not compile.
//
// Threads: one at a time drives a transport and all its links. Nothing blocks; nothing allocates or locks after Link::established(). Errors
// are sticky: a link keeps reporting its first error.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

class CallersSlotsReceiver;
class CallersSlotsSender;
class LandingReceiver;
class LandingSender;
class LentReceiver;
class LentSender;
class RegionAccess;
class SharedSlotsSender;

inline constexpr int kMaxLinkChannels = 8;
inline constexpr int kMaxLinksPerPeer = 14;
inline constexpr uint32_t kMaxSlots = 128;
inline constexpr uint32_t kMaxSlotBytes = 4u << 20;

// Identifies a message: both ends compute it, the receiver compares (it names operation, lane, step and slice).
using Tag = uint64_t;

// The processor of some memory. The CPU cannot access GPU memory; adapters can.
enum class MemoryOf : uint8_t { kHost, kGpu };

// For Sender::tryAcquire(): a message of unknown length.
inline constexpr uint32_t kWholeSlot = UINT32_MAX;

class Sender {
 public:
  virtual ~Sender() = default;
  // The memory of the next free slot, or nullptr while all slots are in flight. The message will have `bytes` bytes and is aligned to 8, as
  // small messages may be inlined in the header; with kWholeSlot it may have any length up to slot_bytes and is aligned to 64. The last
  // call before post() counts; equal calls return the same memory.
  virtual std::byte* tryAcquire(uint32_t bytes) = 0;
  // Sends the first `bytes` bytes of the slot acquired last. Only after a successful tryAcquire().
  virtual void post(uint32_t bytes, Tag tag) = 0;
  // True when every posted message will arrive without further help from this rank, and even if lent memory that it was sent from is
  // taken back.
  virtual bool flushed() const = 0;

  virtual LandingSender* landings() = 0;
  virtual LentSender* lent() = 0;
  virtual CallersSlotsSender* callersSlots() = 0;
  virtual SharedSlotsSender* sharedSlots() = 0;
};

struct Message {
  // In a slot or in its landing; valid until release(). Aligned to 64 bytes, or to 8 if the message is small.
  const std::byte* data = nullptr;
  uint32_t bytes = 0;
  Tag tag = 0;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The oldest message, or nullptr while none has arrived. Does not consume it.
  virtual const Message* tryPeek() = 0;
  // Whether a message has arrived. Unlike tryPeek(), no error where the peer has left and nothing more will come.
  virtual bool hasMessage() const = 0;
  // Consumes the message that tryPeek() showed and returns its credit.
  virtual void release() = 0;
  // True when all released credits have been sent (see Sender::flushed).
  virtual bool flushed() const = 0;

  virtual LandingReceiver* landings() = 0;
  virtual LentReceiver* lent() = 0;
  virtual CallersSlotsReceiver* callersSlots() = 0;
};

// The shape of a link; both ends must be given the same.
struct LinkShape {
  int channels = 1;             // 1 .. kMaxLinkChannels
  uint32_t slots = 8;           // per connection, 2 .. kMaxSlots
  uint32_t slot_bytes = 65536;  // multiple of 64, 64 .. kMaxSlotBytes
  // For transports with SharedSlotsSender: memory for this many slots, `slots` .. kMaxSlots, though at most `slots` messages are in flight;
  // 0: `slots`. Other transports ignore it. transport/slots/README.md explains the purpose.
  uint32_t room = 0;
  bool operator==(const LinkShape&) const = default;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual int peer() const = 0;
  virtual int number() const = 0;  // among the links to this peer
  // True once both ends are ready; senders and receivers may be used from then on.
  virtual bool established() const = 0;
  // The first error of this link, naming the peer; ok() while there is none.
  virtual const Status& status() const = 0;
  // Both ends have learned that they cannot reach each other by this transport any more: the link will never be established, and another
  // transport replaces it.
  virtual bool givenUp() const = 0;
  // The link was established and its connection broke: it is being re-established, and messages in flight are retransmitted then.
  virtual bool isMending() const = 0;
  // Messages were posted that the peer has not released yet. False where sending waits for room as soon as that lasts.
  virtual bool hasUnderWay() const = 0;
  // The peer has left in order: only its earlier messages still arrive. If the caller needs more, that is an error of status().
  virtual bool departed() const = 0;
  // Owned by the link.
  virtual Sender& sender(int channel) = 0;
  virtual Receiver& receiver(int channel) = 0;
  virtual uint64_t memoryBytes() const = 0;  // slots and all
  // "shm" or "socket eth0 -> 10.0.0.2:4711", for humans.
  virtual std::string describe() const = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  // The address of this rank for peers; opaque bytes, exchanged over the bootstrap. At most kMaxAddressBytes.
  virtual std::vector<std::byte> address() const = 0;
  // Whether the rank with this address is reachable from here. The bytes are untrusted.
  virtual bool canReach(std::span<const std::byte> peer_address) const = 0;
  // For messages: the reason why canReach() is false; "" if there is nothing to add.
  virtual std::string whyUnreachable(std::span<const std::byte> peer_address) const = 0;
  // Begins link `number` (0 .. kMaxLinksPerPeer-1) to rank `peer`; both ranks must call it, with the same shape and number.
  // progress() completes it. The transport owns the link. Null: that rank is not reachable any more, and has been notified
  // (Link::givenUp).
  virtual Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                                int number = 0) = 0;
  // Drives handshakes and moves bytes of all links. Never blocks. The first error of any link, or of the transport.
  virtual Status progress() = 0;
  // Waiting: beginWait() asks peers to wake this rank; then call progress() and check once more, and only then block until waitFd() is
  // readable (-1: nothing to block on); then endWait().
  virtual void beginWait() = 0;
  virtual int waitFd() const = 0;
  virtual void endWait() = 0;
  virtual uint64_t memoryBytes() const = 0;

  virtual RegionAccess* regions() = 0;
};

inline constexpr size_t kMaxAddressBytes = 2048;

}  // namespace horing
