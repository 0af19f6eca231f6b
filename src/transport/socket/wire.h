#pragma once
// What crosses a data connection: first the handshake of base/auth.h, whose hellos are the two structs below; then frames.
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

// Said by the connecting end, always the lower rank.
struct ConnectorHello {
  uint32_t rank;
  uint32_t peer;
  uint16_t stream;   // 0 .. streams-1
  uint16_t streams;  // of this link
  uint16_t number;   // of this link among those to the peer
  uint16_t channels;
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t attempt;  // counts the connections of this stream, from 1: of two the later one is meant
  Instance instance;
  Instance peer_instance;
};
static_assert(sizeof(ConnectorHello) == 60 && std::is_trivially_copyable_v<ConnectorHello>);

// Said by the accepting end.
struct AcceptorHello {
  Instance instance;
  uint32_t rank;
};
static_assert(sizeof(AcceptorHello) == 20 && std::is_trivially_copyable_v<AcceptorHello>);

enum class FrameKind : uint16_t {
  kData = 1,     // a message
  kCredit = 2,   // only its credit counts
  kReady = 3,    // first frame of the acceptor: it has called connect(), too
  kRefused = 4,  // instead of kReady: the acceptor was given another shape, packed into tag and sequence
  kGoodbye = 5,  // last frame of an end that leaves in order
  // Before all that follow: what has come so far, a ChannelState for each channel. The other end then sends once more what went by
  // this stream and is not there.
  kState = 6,
  // The path of the stream whose number is in the tag is given up for good, and no byte of it is read any more. The payload is as of
  // kState; what that stream lost goes by the others.
  kGivenUp = 7,
};

// Every frame carries the credit of its channel, so that traffic in both directions needs no frames of credit alone.
struct FrameHeader {
  uint32_t bytes;  // of the payload that follows
  uint16_t channel;
  FrameKind kind;
  uint64_t tag;
  uint64_t sequence;  // of the message on its connection, from 0; the slot is sequence mod slots
  uint64_t credit;    // messages of this channel that the sender of this frame has released so far
  // Of a message that has one (Sender::hasLandings()): its number among these, from 1; 0: it has none.
  uint64_t landing;
};
static_assert(sizeof(FrameHeader) == 40 && std::is_trivially_copyable_v<FrameHeader>);

}  // namespace horing::tcp
