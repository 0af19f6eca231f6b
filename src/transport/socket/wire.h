#pragma once
// The wire format of a data connection: first the handshake of base/auth.h, whose hellos are the two structs below; then frames.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/channel_state.h"
#include "transport/socket/published.h"
#include "transport/transport.h"

namespace horing::tcp {

static_assert(std::endian::native == std::endian::little,
              "wire formats are little-endian and copied as they are");

inline constexpr int kMaxStreams = 128;  // of one link, over all interfaces

// Sent by the connecting end, always the lower rank.
struct ConnectorHello {
  Instance peer_instance;  // first: the process's acceptor reads it there (base/shared_listener.h)
  uint32_t rank;
  uint32_t peer;
  uint16_t stream;   // 0 .. streams-1
  uint16_t streams;  // of this link
  uint16_t number;   // of this link among the links to the peer
  uint16_t channels;
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t attempt;  // counts the connections of this stream, from 1: the later of two is valid
  Instance instance;
};
static_assert(offsetof(ConnectorHello, peer_instance) == 0 && sizeof(ConnectorHello) == 60 &&
              std::is_trivially_copyable_v<ConnectorHello>);

// Sent by the accepting end.
struct AcceptorHello {
  Instance instance;
  uint32_t rank;
};
static_assert(sizeof(AcceptorHello) == 20 && std::is_trivially_copyable_v<AcceptorHello>);

enum class FrameKind : uint16_t {
  kData = 1,     // a message
  kCredit = 2,   // carries only its credit
  kReady = 3,    // first frame of the acceptor: it has called connect(), too
  kRefused = 4,  // instead of kReady: the acceptor has another shape, packed into tag and sequence
  kGoodbye = 5,  // last frame of an end that leaves in order
  // Before all others: what has arrived so far, a ChannelState for each channel. The receiver sends again what this stream lost.
  kState = 6,
  // The path of the stream whose number is in the tag is given up for good, and its remaining bytes are not read. The payload is as
  // of kState; other streams take what it lost.
  kGivenUp = 7,
};

// Every frame carries the credit of its channel, so that traffic in both directions needs no credit frames.
struct FrameHeader {
  uint32_t bytes;  // of the payload that follows
  uint16_t channel;
  FrameKind kind;
  uint64_t tag;
  uint64_t sequence;  // of the message on its connection, from 0; the slot is sequence mod slots
  uint64_t credit;    // messages of this channel that the sender of this frame has released so far
  // For a message with a landing (LandingSender): its number among these, from 1; 0: none.
  uint64_t landing;
};
static_assert(sizeof(FrameHeader) == 40 && std::is_trivially_copyable_v<FrameHeader>);

}  // namespace horing::tcp
