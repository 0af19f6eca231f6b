#pragma once
// The wire format: control messages over the control link (of another transport, which has authenticated the peer), and the header of each
// message in its slot and the immediate data over RDMA.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transport/channel_state.h"
#include "transport/transport.h"

namespace horing::verbs {

static_assert(std::endian::native == std::endian::little,
              "wire formats are little-endian and copied as they are");

inline constexpr size_t kMaxPaths = 8;          // per link
inline constexpr size_t kLargestPacket = 4096;  // bytes of data, and a page

// --- Over RDMA. A slot is 64 bytes that end with this header, then the data, so that one write carries both.
struct SlotHeader {
  uint64_t tag;
  uint64_t credit;  // messages of this channel, in the other direction, that the sender has released so far
  uint32_t flags;   // the flags below
  uint32_t bytes;   // of data
};
static_assert(sizeof(SlotHeader) == 24 && std::is_trivially_copyable_v<SlotHeader>);
inline constexpr uint32_t kFromCaller =
    1;  // sent from memory of the sender's caller, which waits for the credit
inline constexpr uint32_t kHasLanding = 2;  // consumes a landing that the receiver announced
// The data is in the landing, or in a slot of the receiver's caller; otherwise in the link's slot.
inline constexpr uint32_t kLanded = 4;
inline constexpr uint32_t kSlotDataOffset = 64;
inline constexpr uint32_t kSlotHeaderOffset = kSlotDataOffset - sizeof(SlotHeader);

// A receiver's announcement of a landing: a message in the opposite direction, on a separate queue for each channel, whose number is the
// channel's plus `channels`.
struct LandingAnnouncement {
  uint64_t address;  // 0: in slots
  uint64_t bytes;
  uint32_t stride;
  uint32_t messages;
  std::array<uint32_t, kMaxPaths> keys;  // by path
};
inline constexpr uint32_t kLandingSlotBytes = 64;
static_assert(sizeof(LandingAnnouncement) <= kLandingSlotBytes &&
              std::is_trivially_copyable_v<LandingAnnouncement>);
// On the same queue, only as its first message: the address of the receiver's callers' slots, which have the link's size.
struct SlotsAnnouncement {
  uint64_t address;                      // 0: none
  std::array<uint32_t, kMaxPaths> keys;  // by path
};
static_assert(sizeof(SlotsAnnouncement) <= kLandingSlotBytes &&
              std::is_trivially_copyable_v<SlotsAnnouncement>);
inline constexpr Tag kOfLandings = 0, kOfSlots = 1;  // the kind of announcement
// An announcement usually covers a window of messages, so these suffice for as many messages as there are slots.
inline constexpr uint32_t kMaxLandingSlots = 8;
inline constexpr size_t kMaxQueues = 2 * kMaxLinkChannels;

// 32 bits of immediate data: the kind (bit 31), the channel (27 to 30), and the low bits of a number: of the message on its connection, or
// of the messages released.
struct Immediate {
  enum class Kind : uint8_t { kData, kCredit };
  static constexpr int kNumberBits = 27;

  Kind kind = Kind::kData;
  uint32_t channel = 0;
  uint32_t number = 0;

  static constexpr uint32_t pack(Kind kind, uint32_t channel, uint64_t number) {
    return (kind == Kind::kCredit ? 1u << 31 : 0u) | channel << kNumberBits |
           (static_cast<uint32_t>(number) & ((1u << kNumberBits) - 1));
  }
  static constexpr Immediate unpack(uint32_t bits) {
    return {.kind = bits >> 31 ? Kind::kCredit : Kind::kData,
            .channel = bits >> kNumberBits & 15u,
            .number = bits & ((1u << kNumberBits) - 1)};
  }
  // The number with these low bits that is nearest to `near`; below 0 it wraps, which the checks reject.
  constexpr uint64_t widen(uint64_t near) const {
    constexpr uint64_t kSpan = uint64_t{1} << kNumberBits;
    const uint64_t ahead = (number - near) & (kSpan - 1);
    return ahead < kSpan / 2 ? near + ahead : near + ahead - kSpan;
  }
};
static_assert(kMaxQueues <= 16);
static_assert(Immediate::unpack(Immediate::pack(Immediate::Kind::kData, 5, (uint64_t{1} << 40) + 3))
                  .widen((uint64_t{1} << 40) - 2) == (uint64_t{1} << 40) + 3);
static_assert(Immediate::unpack(Immediate::pack(Immediate::Kind::kCredit, 15, (uint64_t{1} << 40) - 3))
                  .widen((uint64_t{1} << 40) + 2) == (uint64_t{1} << 40) - 3);

// --- Over the control link: each control message has one of these tags.
enum class ControlTag : uint64_t {
  kHello = 0x6f6c6c6568,    // a Hello: this end's queue pairs and slots
  kReady = 0x7964616572,    // empty: a first packet of this end has arrived, so both may send
  kBroken = 0x6e6b6f7262,   // a Broken: a path is lost, and what was received so far
  kAgain = 0x6e69616761,    // an Again: a new queue pair for a lost path
  kOn = 0x6e6f,             // a path's number: this end's queue pair of this generation is connected
  kGoodbye = 0x6579627965,  // a Goodbye: this end leaves, and everything that it posted has arrived
};

// Reads the data of a control message. False: it has another size.
template <typename Struct>
bool read(const Message& message, Struct& into) {
  if (message.bytes != sizeof into) return false;
  std::memcpy(&into, message.data, sizeof into);
  return true;
}

struct PathHello {
  uint32_t queue_pair;
  uint32_t packet_number;
  uint32_t remote_key;  // for the slots that this end receives into, on this path's device
  uint32_t reserved;
};
struct Hello {
  uint32_t channels;
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t paths;
  uint64_t slots_address;
  std::array<PathHello, kMaxPaths> path;
};
static_assert(sizeof(Hello) == 24 + kMaxPaths * 16 && std::is_trivially_copyable_v<Hello>);

struct Broken {
  uint32_t path;
  uint32_t for_good;  // 1: this end will not offer it again
  std::array<ChannelState, kMaxQueues> state;
  std::array<char, 176> why;  // ends with a NUL
};
static_assert(std::is_trivially_copyable_v<Broken>);

struct Again {
  uint32_t path;
  uint32_t reserved;
  PathHello hello;
};
static_assert(sizeof(Again) == 24 && std::is_trivially_copyable_v<Again>);

struct Goodbye {
  std::array<uint64_t, kMaxQueues> posted;
  std::array<uint64_t, kMaxQueues> released;
};
static_assert(std::is_trivially_copyable_v<Goodbye>);

// All control messages that one end sends before both are ready, and a loss of every path, fit without waiting for the peer.
inline constexpr LinkShape kControlShape{.channels = 1, .slots = 24, .slot_bytes = 576};
static_assert(kControlShape.slots >= 3 + 2 * kMaxPaths);
static_assert(sizeof(Hello) <= kControlShape.slot_bytes && sizeof(Broken) <= kControlShape.slot_bytes &&
              sizeof(Goodbye) <= kControlShape.slot_bytes);

}  // namespace horing::verbs
