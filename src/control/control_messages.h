#pragma once
// What ranks and the rendezvous say to each other, inside sealed frames. First byte: the kind. Numbers
// little-endian.
//
//   rank -> root   Hello      I am rank r of n; wait t ms for the others
//                  Gather     my part of exchange k; wait t ms
//                  Announce   I cannot go on, and why
//                  Goodbye    I leave; this is no error
//                  Beat       I am alive, and say so every t ms
//                  Call       what I know of call k; unasked when I wait in it
//                  Return     I am rank r still; my connection broke
//                  State      what I do now; unasked when I wait for messages
//                  Ping       let me hear all that is decided already
//   root -> rank   Welcome    all have come: who they are, and who hosts the rendezvous
//                  Gathered   all parts of exchange k
//                  Failure    it is over for everybody, because of rank r
//                  Closing    the rendezvous goes away; no error by itself
//                  BeatEcho   so am I; the answer to every beat
//                  Returned   then let us go on; the answer to a Return
//                  Inquiry    what do you know of call k?
//                  StateInquiry  what do you do now?
//                  Pong       that was all; the answer to a Ping
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "control/call_ledger.h"
#include "control/call_report.h"
#include "control/rank_state.h"

namespace horing {

inline constexpr size_t kMaxHostText = 64;
inline constexpr size_t kMaxReasonText = 4096;

// A process as the others name it.
struct ProcessName {
  std::string host;
  int64_t pid = 0;
  uint64_t pid_namespace = 0;  // inode; tells equal pids of two containers apart
  bool operator==(const ProcessName&) const = default;
  // "node-a, pid 4711"
  std::string toString() const;
};
ProcessName thisProcess();

// Made at random by a rank, known to the rendezvous alone: by this it is known when it comes back.
using ReturnSecret = std::array<std::byte, 16>;

struct HelloMessage {
  int32_t rank = 0;
  int32_t ranks = 0;
  uint32_t timeout_ms = 0;
  ProcessName process;
  ReturnSecret secret{};
  uint32_t spent_ms = 0;  // of timeout_ms, before the message was sent
};
struct GatherMessage {
  uint64_t exchange = 0;
  uint32_t timeout_ms = 0;
  std::vector<std::byte> part;
  std::string what{};  // for people; may be empty
};
struct AnnounceMessage {
  Code code = Code::kInternalError;
  std::string reason;
};
struct GoodbyeMessage {};
struct BeatMessage {
  uint32_t interval_ms = 0;
  uint64_t heard = 0;  // messages, see control/control_journal.h
};
struct ReturnMessage {
  int32_t rank = 0;
  ReturnSecret secret{};
  uint64_t heard = 0;
};
struct PingMessage {
  uint64_t number = 0;
};
struct WelcomeMessage {
  int32_t host_rank = -1;  // whose process hosts the rendezvous; -1: none
  ProcessName host;
  std::vector<ProcessName> ranks;
  uint16_t return_port = 0;  // where ranks whose connection broke may return to; 0: nowhere
};
struct GatheredMessage {
  uint64_t exchange = 0;
  std::vector<std::vector<std::byte>> parts;
};
struct FailureMessage {
  Code code = Code::kRemoteError;
  int32_t rank = -1;  // whom it is about
  std::string reason;
};
struct ClosingMessage {};
struct StateInquiry {
  uint32_t round = 0;
};
struct BeatEchoMessage {
  uint64_t heard = 0;
};
struct ReturnedMessage {
  uint64_t heard = 0;
};
struct PongMessage {
  uint64_t number = 0;
};

using RankMessage = std::variant<HelloMessage, GatherMessage, AnnounceMessage, GoodbyeMessage, BeatMessage,
                                 CallReport, ReturnMessage, RankState, PingMessage>;
using RootMessage = std::variant<WelcomeMessage, GatheredMessage, FailureMessage, ClosingMessage,
                                 BeatEchoMessage, CallInquiry, ReturnedMessage, StateInquiry, PongMessage>;

// Whether both ends count a message, see control/control_journal.h.
bool isCounted(const RankMessage& message);
bool isCounted(const RootMessage& message);

std::vector<std::byte> encodeMessage(const RankMessage& message);
std::vector<std::byte> encodeMessage(const RootMessage& message);

// Hostile bytes in, kRemoteError out.
Result<RankMessage> decodeRankMessage(std::span<const std::byte> bytes);
Result<RootMessage> decodeRootMessage(std::span<const std::byte> bytes);

// The longest message of each direction for a communicator of so many ranks.
size_t maxRankMessageBytes();
size_t maxRootMessageBytes(int ranks);

}  // namespace horing
