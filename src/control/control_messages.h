#pragma once
// The messages between ranks and the rendezvous, inside sealed frames. First byte: the kind. Numbers are little-endian.
//
//   rank -> root   Hello      this is rank r of n; wait at most t ms for the other ranks
//                  Gather     my blob for exchange k; wait at most t ms
//                  Announce   this rank cannot continue, and why
//                  Goodbye    this rank leaves in order
//                  Beat       heartbeat, sent every t ms
//                  Call       my report on call k; sent unasked while this rank waits in it
//                  Return     this is rank r again, on a new connection
//                  State      what this rank does now; sent unasked while it waits for messages
//                  Ping       send me everything that is decided already
//                  Pace       how fast my calls went in the last second, and which ranks I waited for
//                  JobQuestion  how do all ranks fare?
//   root -> rank   Welcome    all ranks have arrived: their processes, and the host of the rendezvous
//                  Gathered   all blobs of exchange k
//                  Failure    the communicator has failed because of rank r
//                  Closing    the rendezvous closes; this alone is no error
//                  BeatEcho   the answer to a Beat
//                  Returned   the answer to a Return: continue
//                  Inquiry    report on call k
//                  StateInquiry  report what you do now
//                  Pong       the answer to a Ping, after everything decided before it
//                  JobAnswer  the answer to a JobQuestion
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
#include "control/pace.h"
#include "control/rank_state.h"

namespace horing {

inline constexpr size_t kMaxHostText = 64;
inline constexpr size_t kMaxReasonText = 4096;

// A rank's process, for messages to other ranks.
struct ProcessName {
  std::string host;
  int64_t pid = 0;
  uint64_t pid_namespace = 0;  // inode; tells equal pids of two containers apart
  bool operator==(const ProcessName&) const = default;
  // "node-a, pid 4711"
  std::string toString() const;
};
ProcessName thisProcess();

// Random, made by a rank and known only to it and the rendezvous; it identifies the rank when it returns.
using ReturnSecret = std::array<std::byte, 16>;

struct HelloMessage {
  int32_t rank = 0;
  int32_t ranks = 0;
  uint32_t timeout_ms = 0;
  ProcessName process;
  ReturnSecret secret{};
  uint32_t spent_ms = 0;  // part of timeout_ms that passed before the message was sent
};
struct GatherMessage {
  uint64_t exchange = 0;
  uint32_t timeout_ms = 0;
  std::vector<std::byte> part;
  std::string what{};  // name of the exchange for error texts; may be empty
};
struct AnnounceMessage {
  Code code = Code::kInternalError;
  std::string reason;
};
struct GoodbyeMessage {};
struct BeatMessage {
  uint32_t interval_ms = 0;
  uint64_t received = 0;  // number of messages received, see control/control_journal.h
};
struct ReturnMessage {
  int32_t rank = 0;
  ReturnSecret secret{};
  uint64_t received = 0;
};
struct PingMessage {
  uint64_t number = 0;
};
struct JobQuestion {};
struct JobAnswer {
  std::vector<std::string> lines;  // for people
};
struct WelcomeMessage {
  int32_t host_rank = -1;  // the rank whose process hosts the rendezvous; -1: none
  ProcessName host;
  std::vector<ProcessName> ranks;
  uint16_t return_port = 0;  // the port for ranks whose connection broke; 0: none
};
struct GatheredMessage {
  uint64_t exchange = 0;
  std::vector<std::vector<std::byte>> parts;
};
struct FailureMessage {
  Code code = Code::kRemoteError;
  int32_t rank = -1;  // the rank to blame
  std::string reason;
};
struct ClosingMessage {};
struct StateInquiry {
  uint32_t round = 0;
};
struct BeatEchoMessage {
  uint64_t received = 0;
};
struct ReturnedMessage {
  uint64_t received = 0;
};
struct PongMessage {
  uint64_t number = 0;
};

using RankMessage = std::variant<HelloMessage, GatherMessage, AnnounceMessage, GoodbyeMessage, BeatMessage,
                                 CallReport, ReturnMessage, RankState, PingMessage, Pace, JobQuestion>;
using RootMessage =
    std::variant<WelcomeMessage, GatheredMessage, FailureMessage, ClosingMessage, BeatEchoMessage,
                 CallInquiry, ReturnedMessage, StateInquiry, PongMessage, JobAnswer>;

// Whether both ends count the message, see control/control_journal.h.
bool isCounted(const RankMessage& message);
bool isCounted(const RootMessage& message);

std::vector<std::byte> encodeMessage(const RankMessage& message);
std::vector<std::byte> encodeMessage(const RootMessage& message);

// Input may be hostile: returns kRemoteError for malformed bytes.
Result<RankMessage> decodeRankMessage(std::span<const std::byte> bytes);
Result<RootMessage> decodeRootMessage(std::span<const std::byte> bytes);

// The longest message of each direction for a communicator with this many ranks.
size_t maxRankMessageBytes();
size_t maxRootMessageBytes(int ranks);

}  // namespace horing
