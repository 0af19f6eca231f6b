#pragma once
// The data that ranks of one node exchange: the address, sent over the bootstrap, and the shared pages.
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/slots/doorbell.h"
#include "transport/transport.h"

namespace horing {

using ShmNonce = std::array<uint8_t, 16>;
inline constexpr char kShmMagic[8] = {'h', 'o', 'r', 'i', 'n', 'g', 'S', '6'};
inline constexpr size_t kMaxShmStemBytes = 112;

// An address, in native byte order: it is valid on the same machine only.
struct ShmAddress {
  std::array<char, 8> magic{};
  std::array<char, 40> boot_id{};  // of the kernel, NUL-terminated
  uint64_t device = 0;             // of the directory
  uint64_t inode = 0;
  ShmNonce nonce{};  // also in the presence page, drawn when the transport is made
  int32_t rank = 0;
  uint32_t has_room : 1 = 0;        // the directory has room for all slots of a rank
  uint32_t pid_namespace : 31 = 0;  // the PID namespace in which memfd slots are accessible (its low bits)
  std::array<char, kMaxShmStemBytes> stem{};  // of file names, NUL-terminated
  std::array<char, kMaxShmStemBytes> bell_stem{};
};
static_assert(sizeof(ShmAddress) == 312 && sizeof(ShmAddress) <= kMaxAddressBytes);

std::vector<std::byte> encodeShmAddress(const ShmAddress& address);
// Nothing unless the bytes are an address with terminated strings and a stem that names a file of horing.
std::optional<ShmAddress> decodeShmAddress(std::span<const std::byte> bytes);

// The most memory that the links of a rank take.
inline constexpr uint64_t kRoomBytes = 64 << 20;

// This machine and directory, without nonce, rank and stem.
Result<ShmAddress> describePlace(const std::string& directory);

// A bit for each rank of a job, by its number.
class RankBits {
 public:
  // release and acquire pair, so that a reader of the bit sees earlier writes.
  void set(int rank) { word(rank).fetch_or(mask(rank), std::memory_order_release); }
  bool has(int rank) const { return (word(rank).load(std::memory_order_acquire) & mask(rank)) != 0; }

 private:
  static constexpr int kMostRanks = 65536, kWordBits = 64;
  static uint64_t mask(int rank) { return uint64_t{1} << (rank % kWordBits); }
  std::atomic<uint64_t>& word(int rank) { return words_[static_cast<size_t>(rank % kMostRanks / kWordBits)]; }
  const std::atomic<uint64_t>& word(int rank) const {
    return words_[static_cast<size_t>(rank % kMostRanks / kWordBits)];
  }
  std::array<std::atomic<uint64_t>, kMostRanks / kWordBits> words_;
};

// The presence file: one for each rank, mapped by all linked peers.
struct PresencePage {
  // Written by the owner before its address is published.
  std::array<char, 8> magic;
  ShmNonce nonce;
  int32_t rank;
  int32_t pid;  // for messages only
  // 1 once the fields above are written. Release by the owner pairs with the acquire in ShmPeer::open().
  std::atomic<uint32_t> is_made;
  // Set and cleared as described at DoorbellFlag.
  DoorbellFlag bell;
  // Written by the owner when its transport is destroyed. Release there pairs with the acquire in
  // SlotLinkState::peerDeparted().
  alignas(64) std::atomic<uint32_t> departed;
  // The owner opens no more files of these ranks (Transport::connect). Before it sets a bit it has answered the rows that it did open.
  alignas(64) RankBits given_up;
};
static_assert(sizeof(PresencePage) == 192 + 8192 && offsetof(PresencePage, given_up) == 192 &&
              offsetof(PresencePage, bell) == 64 && offsetof(PresencePage, departed) == 128);
inline constexpr uint64_t kPresenceBytes = 3 * 4096;
inline constexpr uint64_t kBellPresenceBytes = 4096;  // nothing is in it

enum class RowState : uint32_t { kUnmade = 0, kWaiting = 1, kMapped = 2, kRefused = 3 };

// Start of the file of one direction of a link, made by the receiving rank; the row of slot queues follows.
struct RowHeader {
  // Written by the owner before the file gets its name.
  std::array<char, 8> magic;
  int32_t owner;
  int32_t sender;
  LinkShape owner_shape;
  uint32_t has_holes;  // 1: only headers of slots have memory
  // Written by the sender once it has seen the file.
  alignas(64) LinkShape sender_shape;
  // kWaiting from the owner, before the file gets its name: release in ShmLink::begin() pairs with the acquire in
  // ShmLink::openOutbound(). Then the sender's answer: release there pairs with the acquire in ShmLink::answer().
  std::atomic<RowState> state;
  std::array<std::byte, 128> reserved;
};
static_assert(sizeof(RowHeader) == 256 && offsetof(RowHeader, sender_shape) == 64 && sizeof(LinkShape) == 16);

}  // namespace horing
