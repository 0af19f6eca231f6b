#pragma once
// The sending end of a connection, for data in host memory. Schedules and messages both send through it.
#include <cstddef>
#include <cstdint>

#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/shared_slots.h"
#include "transport/transport.h"

namespace horing {

// A value; the sender must outlive it. To send a piece: tryAcquire(), fill the room if there is one, post().
struct SendEnd {
  // A piece of a message that has been acquired and not yet posted.
  struct Piece {
    std::byte* room = nullptr;  // to be filled: a slot, or memory where the piece lands; null: `lent` is sent
    const std::byte* lent = nullptr;  // lent memory to send the piece from
    explicit operator bool() const { return room || lent; }
  };

  Sender* sender = nullptr;  // null: nothing is sent
  // The sender's optional interfaces; null: it lacks them.
  LandingSender* landings = nullptr;
  LentSender* lent = nullptr;
  SharedSlotsSender* shared = nullptr;

  SendEnd() = default;
  explicit SendEnd(Sender& from)
      : sender(&from), landings(from.landings()), lent(from.lent()), shared(from.sharedSlots()) {}
  explicit operator bool() const { return sender; }

  // Acquires the next piece; false: no room now. `lands`: both ends count the piece as landing (landings.h). `value`: memory that
  // holds the piece for as long as a transport may read it, or null.
  Piece tryAcquire(size_t bytes, bool lands, const std::byte* value) const {
    const auto length = static_cast<uint32_t>(bytes);
    std::byte* const room = lands ? landings->tryAcquireLanding() : sender->tryAcquire(length);
    if (room && value && lent && lent->sendsFrom(value, length)) return {nullptr, value};
    return {room, nullptr};
  }

  // Whether to fill the room of a piece past the caches (streamBytes) and call streamFence() before post().
  bool readerIsFar(size_t bytes) const { return shared && bytes >= kFarBytes && shared->readerIsFar(); }

  void post(const Piece& piece, size_t bytes, Tag tag) const {
    const auto length = static_cast<uint32_t>(bytes);
    if (piece.lent) {
      lent->postFrom(piece.lent, length, tag);
    } else {
      sender->post(length, tag);
    }
  }
};

}  // namespace horing
