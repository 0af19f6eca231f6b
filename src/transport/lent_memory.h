#pragma once
// Memory of callers that a transport reads and writes in place: regions, which are lent to a transport and taken back, and sending from
// them. LandingReceiver (landings.h) is the receiving half.
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace horing {

// Memory of a caller. It stays mapped until RegionAccess::forget(), or, if nobody registered it, until it is taken back. A value; no
// two regions ever have the same `id`.
struct Region {
  uint64_t id = 0;
  std::byte* begin = nullptr;
  size_t bytes = 0;
  // The CPU cannot access GPU memory, so the transport cannot fall back to copying it.
  MemoryOf of = MemoryOf::kHost;
  // Adapters register the region by its address, like host memory.
  bool by_address = true;
  // Otherwise by a dma-buf: its descriptor, borrowed as long as the region exists (-1: none), and the offset of the region in it.
  int dmabuf = -1;
  uint64_t dmabuf_offset = 0;

  bool ofGpu() const { return of == MemoryOf::kGpu; }
  bool contains(const std::byte* memory, size_t length) const {
    return memory >= begin && length <= bytes && static_cast<size_t>(memory - begin) <= bytes - length;
  }
};

// Bytes of messages: moved in place, or copied through slots.
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

// The interface of a transport. All functions except forget() are called by the thread that drives the transport.
class RegionAccess {
 public:
  // Whether messages move faster from and into lent memory of the host, though lending a region for the first time costs time.
  virtual bool usesLentMemory() const = 0;
  // Whether messages move faster into lent memory of the host, and lending costs nothing.
  virtual bool usesOrdinaryMemory() const = 0;
  // Whether messages move faster from and into lent memory of a GPU.
  virtual bool usesGpuMemory() const = 0;
  // Whether regions may be lent for good: the limit on locked memory leaves enough for everything else.
  virtual bool mayKeepMemory() = 0;
  // Messages may be sent from the region, and received into it, until takeBack() was called as often as lend(). Always succeeds: if the
  // region cannot be used, the transport copies messages through slots.
  virtual void lend(const Region& region) = 0;
  // After the last takeBack(), and forget() or the end of the region, the transport does not access it, even if messages are in flight.
  virtual void takeBack(const Region& region) = 0;
  // Any thread. The region ends: on return the transport has deregistered it; if it is lent, after the last takeBack().
  virtual void forget(uint64_t region) = 0;
  // Whether all of that memory is lent and registered with every adapter.
  virtual bool holds(const std::byte* memory, size_t bytes) const = 0;
  // Totals over all links, since the transport was made.
  virtual DataMoved dataMoved() const = 0;

 protected:
  ~RegionAccess() = default;
};

// The interface of a sender.
class LentSender {
 public:
  // Whether postFrom() may be called with that memory.
  virtual bool sendsFrom(const std::byte* memory, uint32_t bytes) const = 0;
  // As Sender::post(), but sends `memory`, which must not change until it is taken back, even if flushed(). Consumes the acquired slot.
  virtual void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) = 0;

 protected:
  ~LentSender() = default;
};

// The interface of a receiver whose peer must keep lent memory until it has the credits for the messages sent from it.
class LentReceiver {
 public:
  // Returns these credits at once. True: all are returned. False: call it again. If a rank stops calling it and stops driving the
  // transport, its peer waits.
  virtual bool settle() = 0;

 protected:
  ~LentReceiver() = default;
};

}  // namespace horing
