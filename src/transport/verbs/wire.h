#pragma once
// What two ranks say to each other: words over the control link (any other transport's, which has proven who the peer is), and
// what lies before each message in its slot or travels as immediate data over RDMA.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/channel_state.h"
#include "transport/transport.h"

namespace horing::verbs {

static_assert(std::endian::native == std::endian::little,
              "wire formats are little-endian and copied as they are");

inline constexpr size_t kMaxPaths = 8;          // of one link
inline constexpr size_t kLargestPacket = 4096;  // bytes of data, and a page

// --- Over RDMA. A slot is 64 bytes of which the last ones are this, then the data, so that one write carries both.
struct SlotHeader {
  uint64_t tag;
  uint64_t credit;  // messages of this channel, in the other direction, that the sender has released so far
  uint32_t flags;   // of those below
  uint32_t bytes;   // of data
};
static_assert(sizeof(SlotHeader) == 24 && std::is_trivially_copyable_v<SlotHeader>);
inline constexpr uint32_t kFromCaller = 1;  // lies in memory of the sender's caller, who waits for the credit
inline constexpr uint32_t kHasLanding = 2;  // uses up one that the receiver told,
// Lies there, or in a slot of the receiver's caller, written before; else in the link's slot.
inline constexpr uint32_t kLanded = 4;
inline constexpr uint32_t kSlotDataOffset = 64;
inline constexpr uint32_t kSlotHeaderOffset = kSlotDataOffset - sizeof(SlotHeader);

// What a receiver says of messages to come: a message in the opposite direction, on a queue of its own beside each channel's. Both are
// numbered as channels are, that one `channels` higher.
struct LandingWord {
  uint64_t address;  // 0: in slots
  uint64_t bytes;
  uint32_t stride;
  uint32_t messages;
  std::array<uint32_t, kMaxPaths> keys;  // by path
};
inline constexpr uint32_t kLandingSlotBytes = 64;
static_assert(sizeof(LandingWord) <= kLandingSlotBytes && std::is_trivially_copyable_v<LandingWord>);
// On the same queue, as the first word of it or never: where the receiver's own slots are, which are as large as the link's.
struct SlotsWord {
  uint64_t address;                      // 0: there are none
  std::array<uint32_t, kMaxPaths> keys;  // by path
};
static_assert(sizeof(SlotsWord) <= kLandingSlotBytes && std::is_trivially_copyable_v<SlotsWord>);
inline constexpr Tag kOfLandings = 0, kOfSlots = 1;  // which of both a word is
// One says it of a window of messages as a rule, so these serve as many messages as there are slots.
inline constexpr uint32_t kMaxLandingSlots = 8;
inline constexpr size_t kMaxQueues = 2 * kMaxLinkChannels;

// 32 bits of immediate data: what has come (bit 31), on which channel (27 to 30), and the low bits of a number: of the message on
// its connection, or of the messages released.
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
  // The number with these low bits that is nearest to `near`; below 0 it wraps, which no check lets pass.
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

// --- Over the control link: each word is one message of it, whose tag is one of these.
enum class Word : uint64_t {
  kHello = 0x6f6c6c6568,    // a Hello: how to reach this end's queue pairs and slots
  kReady = 0x7964616572,    // nothing more: a first packet of this end has got through, so both may send
  kBroken = 0x6e6b6f7262,   // a Broken: one path is gone, and what has come so far
  kAgain = 0x6e69616761,    // an Again: a lost path may come back, and how to reach this end of it
  kOn = 0x6e6f,             // a path's number: this end's queue pair of this life takes what comes
  kGoodbye = 0x6579627965,  // a Goodbye: this end leaves, and all that it posted has arrived
};

struct PathHello {
  uint32_t queue_pair;
  uint32_t packet_number;
  uint32_t remote_key;  // of the slots that this end receives into, on this path's device
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

// Every word that one end says before both are ready, and a loss of every path, fits without waiting for the other.
inline constexpr LinkShape kControlShape{.channels = 1, .slots = 24, .slot_bytes = 576};
static_assert(kControlShape.slots >= 3 + 2 * kMaxPaths);
static_assert(sizeof(Hello) <= kControlShape.slot_bytes && sizeof(Broken) <= kControlShape.slot_bytes &&
              sizeof(Goodbye) <= kControlShape.slot_bytes);

}  // namespace horing::verbs
