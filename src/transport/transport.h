#pragma once
// What moves bytes between two ranks, behind one interface. See transport/README.md for how to add one.
//
// A *link* joins this rank and one peer over one transport. It has a few *channels*, numbered from 0 (the plan maps the lanes
// of a schedule onto them, see engine/host/plan.h), and each channel is two *connections*, one in each direction: here a
// sender and a receiver. A connection is a first-in-first-out queue of `slots` slots of `slot_bytes` bytes with credits. The
// sender fills a free slot and posts it; the receiver peeks at the oldest slot, uses it in place and releases it, which
// returns the credit. Several links may join the same two ranks; they differ in their *number* and share nothing.
//
// Threads: one at a time drives a transport and all that it made. Nothing blocks; nothing allocates or locks after
// Link::established(). Errors are sticky: the first one of a link is what it reports ever after.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

inline constexpr int kMaxLinkChannels = 8;
inline constexpr int kMaxLinksPerPeer = 12;
inline constexpr uint32_t kMaxSlots = 128;
inline constexpr uint32_t kMaxSlotBytes = 4u << 20;

// Below, lines that go from cache to cache are there sooner than memory, wherever the reader is.
inline constexpr uint32_t kFarBytes = 4096;

// Identifies a message: both ends compute it, the receiver compares (it names operation, lane, step and slice).
using Tag = uint64_t;

// Whose memory some is: that of a GPU nobody but adapters may touch.
enum class MemoryOf : uint8_t { kHost, kGpu };

class Sender {
 public:
  virtual ~Sender() = default;
  // The memory of the next free slot (slot_bytes long, aligned to 64 bytes), or nullptr while all slots are in flight.
  // Calling again before post() returns the same slot.
  virtual std::byte* tryAcquire() = 0;
  // The same for a message of exactly `bytes` bytes; aligned to 8 bytes. Small ones may travel with their header.
  virtual std::byte* tryAcquireFor(uint32_t /*bytes*/) { return tryAcquire(); }
  // The same for a message that the receiver has a landing for (Receiver::tryLand): if this rank lends any memory, also nullptr while
  // it has not said so. Both ends must agree for which messages.
  virtual std::byte* tryAcquireLanding() { return tryAcquire(); }
  // Publishes the first `bytes` (0 .. slot_bytes) bytes of what was acquired last. Only after a successful tryAcquire().
  virtual void post(uint32_t bytes, Tag tag) = 0;
  // True when everything posted will arrive without further help from this rank, whatever becomes of memory that it lies in once that
  // is taken back.
  virtual bool flushed() const = 0;
  // From the next message on: whether messages go through all the room of a link (LinkShape::room), each in the smallest place that
  // it fits, or keep to few slots. Costs nothing to be called; this end's own affair.
  virtual void roam(bool /*far*/) {}
  // Whether kFarBytes or more are better stored past the caches (engine/host/fold.h), since those of who reads them are far. May change
  // from one message to the next.
  virtual bool readerIsFar() { return false; }

  // --- For slots that are the caller's (Transport::takesSlots).
  // From the first message on, slots are that memory, one after the other, as many and as large as the link's, aligned to 64 bytes; until
  // the link goes, for what is not acknowledged may be sent again. The receiver must be asked for the same: nothing may be sent until it
  // has been. False: they are not.
  virtual bool useSlots(std::span<std::byte> /*memory*/, MemoryOf /*of*/ = MemoryOf::kHost) { return false; }
  // Of messages in such slots, how many have left theirs.
  virtual uint64_t acknowledged() const { return 0; }

  // --- For memory that was lent to the transport (Transport::lend); others serve all by copying.
  // Whether messages have landings: those that the sender acquires by tryAcquireLanding(), one after the other, are those that the
  // receiver tells landings of. Both say the same.
  virtual bool hasLandings() const { return awaitsLandings(); }
  // Whether tryAcquireLanding() may wait; the same at both ends of a connection.
  virtual bool awaitsLandings() const { return false; }
  // Whether postFrom() can be called with that.
  virtual bool sendsFrom(const std::byte* /*memory*/, uint32_t /*bytes*/) const { return false; }
  // As post(), but of that memory, which must stay as it is until it is taken back, flushed() or not; the acquired slot is taken up all
  // the same.
  virtual void postFrom(const std::byte* /*memory*/, uint32_t bytes, Tag tag) { post(bytes, tag); }
};

struct Message {
  const std::byte* data =
      nullptr;  // valid until release(), aligned to 64 bytes, or to 8 if it is small; or where it landed
  uint32_t bytes = 0;
  Tag tag = 0;
};

// Where messages land, one `stride` after the other; none is longer than that, and none reaches beyond `bytes`.
struct Landing {
  std::byte* memory = nullptr;  // null: in slots
  size_t bytes = 0;
  uint32_t stride = 0;
  uint32_t messages = 0;  // 1 or more
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The oldest message, or nullptr while none has arrived. Does not consume it.
  virtual const Message* tryPeek() = 0;
  // Consumes the message that tryPeek() showed and returns its credit.
  virtual void release() = 0;
  // True when all credits released have been handed over (see Sender::flushed).
  virtual bool flushed() const = 0;
  // Hands over the credits that a sender's memory waits for (Sender::postFrom). True when there are none; else to be called again.
  // Who does not, and makes no progress either, makes its peer wait.
  virtual bool settle() { return true; }
  // As Sender::useSlots(), before the first message has come: Message::data tells which are there: all if the sender was asked, too.
  virtual bool useSlots(std::span<std::byte> /*memory*/, MemoryOf /*of*/ = MemoryOf::kHost) { return false; }
  // Where it has such slots: the message `ahead` of the oldest, or nullptr while that has not arrived. Does not consume it.
  virtual const Message* tryPeekAhead(uint64_t /*ahead*/) { return nullptr; }
  // As of the sender.
  virtual bool hasLandings() const { return awaitsLandings(); }
  virtual bool awaitsLandings() const { return false; }
  // Says where the next messages that have no landing yet shall be: in that memory if it is lent (Transport::lend) and the transport can
  // put them there, else in slots; Message::data tells. False: not now. May be said long before the messages are sent, or, where nobody
  // awaits it, after: then they are in slots.
  virtual bool tryLand(const Landing& /*landing*/) { return true; }
};

// Memory of a caller that stays where it is until Transport::forget(), or, if nobody registered it, until it is taken back. A value; no
// two ever have the same `id`.
struct Region {
  uint64_t id = 0;
  std::byte* begin = nullptr;
  size_t bytes = 0;
  // Devices alone touch that of a GPU, so it cannot be copied where moving it in place fails.
  MemoryOf of = MemoryOf::kHost;
  // Devices find it by its address, as memory of the host.
  bool by_address = true;
  // Or by a descriptor of the dma-buf that holds it, borrowed while there is the region, and how far into that it begins. -1: there is none.
  int dmabuf = -1;
  uint64_t dmabuf_offset = 0;

  bool ofGpu() const { return of == MemoryOf::kGpu; }
  bool contains(const std::byte* memory, size_t length) const {
    return memory >= begin && length <= bytes && static_cast<size_t>(memory - begin) <= bytes - length;
  }
};

// The shape of a link; both ends must be given the same.
struct LinkShape {
  int channels = 1;             // 1 .. kMaxLinkChannels
  uint32_t slots = 8;           // per connection, 2 .. kMaxSlots
  uint32_t slot_bytes = 65536;  // multiple of 64, 64 .. kMaxSlotBytes
  // Where slots are memory that both ends reach: there is memory for so many, `slots` .. kMaxSlots, though no more than `slots` messages
  // are under way at a time; 0: for `slots`. Others take no notice. transport/slots/README.md says what that is good for.
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
  // Both ends hear that they reach each other by this transport no longer: it will never be established, and another takes its place.
  virtual bool givenUp() const { return false; }
  // The peer has left in order: nothing comes but what it had sent. That is an error, of status(), once more is asked of it.
  virtual bool departed() const = 0;
  // Owned by the link.
  virtual Sender& sender(int channel) = 0;
  virtual Receiver& receiver(int channel) = 0;
  virtual uint64_t memoryBytes() const = 0;  // slots and all
  // "shm" or "socket eth0 -> 10.0.0.2:4711", for humans.
  virtual std::string describe() const = 0;
};

// Bytes of messages that went over links, by whether the transport copied them through slots.
struct DataMoved {
  uint64_t sent_in_place = 0;
  uint64_t sent_through_slots = 0;
  uint64_t received_in_place = 0;
  uint64_t received_through_slots = 0;

  DataMoved& operator+=(const DataMoved& more) {
    sent_in_place += more.sent_in_place;
    sent_through_slots += more.sent_through_slots;
    received_in_place += more.received_in_place;
    received_through_slots += more.received_through_slots;
    return *this;
  }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  // What peers need to reach this rank; opaque bytes, exchanged over the bootstrap. At most kMaxAddressBytes.
  virtual std::vector<std::byte> address() const = 0;
  // Whether the rank with this address can be reached from here. Bytes may be hostile: never trusted, never crash.
  virtual bool canReach(std::span<const std::byte> peer_address) const = 0;
  // For people: why canReach() says no, as far as there is more to say than that.
  virtual std::string whyUnreachable(std::span<const std::byte> /*peer_address*/) const { return {}; }
  // Begins link `number` (0 .. kMaxLinksPerPeer-1) to rank `peer`; both ranks must call it, with the same shape and number.
  // progress() completes it. The transport owns the link. Null: it reaches that rank no longer, and has told it (Link::givenUp).
  virtual Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                                int number = 0) = 0;
  // Drives handshakes and moves bytes of all links. Never blocks. The first error of any link, or of the transport.
  virtual Status progress() = 0;
  // Waiting: beginWait() asks peers to wake this rank; then call progress() and look once more, and only then block on
  // waitFd() becoming readable (-1: there is nothing to block on); endWait() after that.
  virtual void beginWait() = 0;
  virtual int waitFd() const = 0;
  virtual void endWait() = 0;
  virtual uint64_t memoryBytes() const = 0;

  // Whether slots may be the caller's (Sender::useSlots); where usesLentMemory(), such as is lent. The same on every rank.
  virtual bool takesSlots() const { return false; }

  // --- Memory of callers.
  // Whether lending it gains anything, where messages are sent from it and where they land, though it costs to lend it the first time.
  virtual bool usesLentMemory() const { return false; }
  // Whether it gains anything where messages land, and costs nothing.
  virtual bool usesOrdinaryMemory() const { return false; }
  // Whether it gains anything if it is a GPU's.
  virtual bool usesGpuMemory() const { return false; }
  // Until as many takeBack(): messages may be sent from the region and land in it without a copy. Where that fails, they are copied.
  // Once it is forgotten and taken back nothing of it is read or written, though messages be under way.
  virtual void lend(const Region& /*region*/) {}
  virtual void takeBack(const Region& /*region*/) {}
  // Whether it may have some for good: that leaves enough of what may be locked for all else.
  virtual bool mayKeepMemory() { return false; }
  // Whether adapters have all of that, which is lent.
  virtual bool holds(const std::byte* /*memory*/, size_t /*bytes*/) const { return false; }
  // Any thread. The region goes: on return the transport keeps nothing of it, unless it is lent: then when it is taken back.
  virtual void forget(uint64_t /*region*/) {}
  // Of all links so far; nothing is counted where lent memory is of no use.
  virtual DataMoved dataMoved() const { return {}; }
};

inline constexpr size_t kMaxAddressBytes = 2048;

}  // namespace horing
