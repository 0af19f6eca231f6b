#include "control/control_messages.h"

#include <sys/stat.h>
#include <unistd.h>

#include "control/root_service.h"
#include "control/wire.h"

namespace horing {

namespace {

enum class Kind : uint8_t {
  kHello = 1,
  kGather = 2,
  kAnnounce = 3,
  kGoodbye = 4,
  kBeat = 5,
  kCall = 6,
  kReturn = 7,
  kState = 8,
  kPing = 9,
  kWelcome = 17,
  kGathered = 18,
  kFailure = 19,
  kClosing = 20,
  kBeatEcho = 21,
  kInquiry = 22,
  kReturned = 23,
  kStateInquiry = 24,
  kPong = 25,
};

constexpr size_t kMaxProcessBytes = 4 + kMaxHostText + 16;

void write(WireWriter& out, const ProcessName& process) {
  out.text(process.host, kMaxHostText);
  out.number(process.pid);
  out.number(process.pid_namespace);
}

ProcessName readProcess(WireReader& in) {
  ProcessName process;
  process.host = in.text(kMaxHostText);
  process.pid = in.number<int64_t>();
  process.pid_namespace = in.number<uint64_t>();
  return process;
}

ReturnSecret readSecret(WireReader& in) {
  ReturnSecret secret;
  for (std::byte& byte : secret) byte = static_cast<std::byte>(in.number<uint8_t>());
  return secret;
}

std::vector<std::byte> readPart(WireReader& in) {
  const std::span<const std::byte> part = in.blob(kMaxGatherBytes);
  return {part.begin(), part.end()};
}

Code readCode(WireReader& in) {
  const uint8_t code = in.number<uint8_t>();
  const bool known =
      code >= static_cast<uint8_t>(Code::kUnhandledCudaError) && code <= static_cast<uint8_t>(Code::kTimeout);
  return known ? static_cast<Code>(code) : Code::kInternalError;
}

void writeRanks(WireWriter& out, const std::vector<int32_t>& ranks) {
  out.number(static_cast<uint32_t>(ranks.size()));
  for (const int32_t rank : ranks) out.number(rank);
}

// False: more than kMaxWaitedFor.
bool readRanks(WireReader& in, std::vector<int32_t>& ranks) {
  const uint32_t count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && count <= kMaxWaitedFor; ++i) ranks.push_back(in.number<int32_t>());
  return count <= kMaxWaitedFor;
}

void write(WireWriter& out, const RankState& m) {
  out.number(static_cast<uint8_t>(m.doing));
  out.number(m.round);
  out.number(m.sequence);
  out.text(m.name, kMaxCallName);
  out.number(m.idle_ms);
  out.number(m.overdue_ms);
  writeRanks(out, m.takes_from);
  writeRanks(out, m.gives_to);
}

Result<RankMessage> readState(WireReader& in) {
  RankState m;
  const uint8_t doing = in.number<uint8_t>();
  m.doing = static_cast<RankState::Doing>(doing);
  m.round = in.number<uint32_t>();
  m.sequence = in.number<uint64_t>();
  m.name = in.text(kMaxCallName);
  m.idle_ms = in.number<uint32_t>();
  m.overdue_ms = in.number<uint32_t>();
  const bool has_ranks = readRanks(in, m.takes_from) && readRanks(in, m.gives_to);
  if (!in.complete() || !has_ranks || doing > static_cast<uint8_t>(RankState::Doing::kExchange))
    return makeStatus(Code::kRemoteError, "what a rank says it does is damaged");
  return RankMessage(std::move(m));
}

void write(WireWriter& out, const CallReport& m) {
  out.number(static_cast<uint8_t>(m.kind));
  out.number(m.sequence);
  out.number(m.round);
  out.number(m.begun);
  out.number(m.ended);
  out.number(m.digest);
  out.text(m.name, kMaxCallName);
  out.text(m.arguments, kMaxCallText);
  out.number(m.timeout_ms);
  writeRanks(out, m.waits_for);
  out.text(m.obstacle, kMaxObstacleText);
}

Result<RankMessage> readCall(WireReader& in) {
  CallReport m;
  const uint8_t kind = in.number<uint8_t>();
  m.kind = static_cast<CallReport::Kind>(kind);
  m.sequence = in.number<uint64_t>();
  m.round = in.number<uint32_t>();
  m.begun = in.number<uint64_t>();
  m.ended = in.number<uint64_t>();
  m.digest = in.number<uint64_t>();
  m.name = in.text(kMaxCallName);
  m.arguments = in.text(kMaxCallText);
  m.timeout_ms = in.number<uint32_t>();
  const bool has_ranks = readRanks(in, m.waits_for);
  m.obstacle = in.text(kMaxObstacleText);
  if (!in.complete() || !has_ranks || kind > static_cast<uint8_t>(CallReport::Kind::kOverdue))
    return makeStatus(Code::kRemoteError, "a report of a call is damaged");
  return RankMessage(std::move(m));
}

struct Writer {
  WireWriter out;

  void operator()(const HelloMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kHello));
    out.number(m.rank);
    out.number(m.ranks);
    out.number(m.timeout_ms);
    write(out, m.process);
    for (const std::byte byte : m.secret) out.number(static_cast<uint8_t>(byte));
    out.number(m.spent_ms);
  }
  void operator()(const ReturnMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kReturn));
    out.number(m.rank);
    for (const std::byte byte : m.secret) out.number(static_cast<uint8_t>(byte));
    out.number(m.heard);
  }
  void operator()(const GatherMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kGather));
    out.number(m.exchange);
    out.number(m.timeout_ms);
    out.blob(m.part);
    out.text(m.what, kMaxCallName);
  }
  void operator()(const AnnounceMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kAnnounce));
    out.number(static_cast<uint8_t>(m.code));
    out.text(m.reason, kMaxReasonText);
  }
  void operator()(const GoodbyeMessage&) { out.number(static_cast<uint8_t>(Kind::kGoodbye)); }
  void operator()(const BeatMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kBeat));
    out.number(m.interval_ms);
    out.number(m.heard);
  }
  void operator()(const CallReport& m) {
    out.number(static_cast<uint8_t>(Kind::kCall));
    write(out, m);
  }
  void operator()(const RankState& m) {
    out.number(static_cast<uint8_t>(Kind::kState));
    write(out, m);
  }
  void operator()(const PingMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kPing));
    out.number(m.number);
  }
  void operator()(const WelcomeMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kWelcome));
    out.number(m.host_rank);
    write(out, m.host);
    out.number(static_cast<uint32_t>(m.ranks.size()));
    for (const ProcessName& process : m.ranks) write(out, process);
    out.number(m.return_port);
  }
  void operator()(const GatheredMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kGathered));
    out.number(m.exchange);
    out.number(static_cast<uint32_t>(m.parts.size()));
    for (const std::vector<std::byte>& part : m.parts) out.blob(part);
  }
  void operator()(const FailureMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kFailure));
    out.number(static_cast<uint8_t>(m.code));
    out.number(m.rank);
    out.text(m.reason, kMaxReasonText);
  }
  void operator()(const ClosingMessage&) { out.number(static_cast<uint8_t>(Kind::kClosing)); }
  void operator()(const BeatEchoMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kBeatEcho));
    out.number(m.heard);
  }
  void operator()(const ReturnedMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kReturned));
    out.number(m.heard);
  }
  void operator()(const CallInquiry& m) {
    out.number(static_cast<uint8_t>(Kind::kInquiry));
    out.number(m.sequence);
    out.number(m.round);
  }
  void operator()(const StateInquiry& m) {
    out.number(static_cast<uint8_t>(Kind::kStateInquiry));
    out.number(m.round);
  }
  void operator()(const PongMessage& m) {
    out.number(static_cast<uint8_t>(Kind::kPong));
    out.number(m.number);
  }
};

template <typename Variant>
Result<Variant> finish(const WireReader& in, Variant message) {
  if (!in.complete()) return makeStatus(Code::kRemoteError, "a control message is damaged");
  return message;
}

WelcomeMessage readWelcome(WireReader& in) {
  WelcomeMessage m;
  m.host_rank = in.number<int32_t>();
  m.host = readProcess(in);
  const uint32_t ranks = in.number<uint32_t>();
  // The list grows as it is read: a false count costs nothing.
  for (uint32_t rank = 0; rank < ranks && !in.failed(); ++rank) m.ranks.push_back(readProcess(in));
  m.return_port = in.number<uint16_t>();
  return m;
}

GatheredMessage readGathered(WireReader& in) {
  GatheredMessage m;
  m.exchange = in.number<uint64_t>();
  const uint32_t ranks = in.number<uint32_t>();
  for (uint32_t rank = 0; rank < ranks && !in.failed(); ++rank) m.parts.push_back(readPart(in));
  return m;
}

}  // namespace

std::string ProcessName::toString() const {
  return formatString("%s, pid %lld", host.c_str(), static_cast<long long>(pid));
}

ProcessName thisProcess() {
  ProcessName process;
  char host[kMaxHostText + 1] = "?";
  ::gethostname(host, sizeof host - 1);
  process.host = host;
  process.pid = ::getpid();
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) process.pid_namespace = static_cast<uint64_t>(info.st_ino);
  return process;
}

std::vector<std::byte> encodeMessage(const RankMessage& message) {
  Writer writer;
  std::visit(writer, message);
  return writer.out.take();
}

std::vector<std::byte> encodeMessage(const RootMessage& message) {
  Writer writer;
  std::visit(writer, message);
  return writer.out.take();
}

Result<RankMessage> decodeRankMessage(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  switch (static_cast<Kind>(in.number<uint8_t>())) {
    case Kind::kHello: {
      HelloMessage m;
      m.rank = in.number<int32_t>();
      m.ranks = in.number<int32_t>();
      m.timeout_ms = in.number<uint32_t>();
      m.process = readProcess(in);
      m.secret = readSecret(in);
      m.spent_ms = in.number<uint32_t>();
      return finish(in, RankMessage(std::move(m)));
    }
    case Kind::kGather: {
      GatherMessage m;
      m.exchange = in.number<uint64_t>();
      m.timeout_ms = in.number<uint32_t>();
      m.part = readPart(in);
      m.what = in.text(kMaxCallName);
      return finish(in, RankMessage(std::move(m)));
    }
    case Kind::kAnnounce: {
      AnnounceMessage m;
      m.code = readCode(in);
      m.reason = in.text(kMaxReasonText);
      return finish(in, RankMessage(std::move(m)));
    }
    case Kind::kGoodbye:
      return finish(in, RankMessage(GoodbyeMessage{}));
    case Kind::kBeat: {
      BeatMessage m;
      m.interval_ms = in.number<uint32_t>();
      m.heard = in.number<uint64_t>();
      return finish(in, RankMessage(m));
    }
    case Kind::kReturn: {
      ReturnMessage m;
      m.rank = in.number<int32_t>();
      m.secret = readSecret(in);
      m.heard = in.number<uint64_t>();
      return finish(in, RankMessage(m));
    }
    case Kind::kCall:
      return readCall(in);
    case Kind::kState:
      return readState(in);
    case Kind::kPing:
      return finish(in, RankMessage(PingMessage{in.number<uint64_t>()}));
    default:
      return makeStatus(Code::kRemoteError, "a control message of unknown kind");
  }
}

Result<RootMessage> decodeRootMessage(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  switch (static_cast<Kind>(in.number<uint8_t>())) {
    case Kind::kWelcome: {
      WelcomeMessage m = readWelcome(in);
      return finish(in, RootMessage(std::move(m)));
    }
    case Kind::kGathered: {
      GatheredMessage m = readGathered(in);
      return finish(in, RootMessage(std::move(m)));
    }
    case Kind::kFailure: {
      FailureMessage m;
      m.code = readCode(in);
      m.rank = in.number<int32_t>();
      m.reason = in.text(kMaxReasonText);
      return finish(in, RootMessage(std::move(m)));
    }
    case Kind::kClosing:
      return finish(in, RootMessage(ClosingMessage{}));
    case Kind::kBeatEcho:
      return finish(in, RootMessage(BeatEchoMessage{in.number<uint64_t>()}));
    case Kind::kReturned:
      return finish(in, RootMessage(ReturnedMessage{in.number<uint64_t>()}));
    case Kind::kInquiry: {
      CallInquiry m;
      m.sequence = in.number<uint64_t>();
      m.round = in.number<uint32_t>();
      return finish(in, RootMessage(m));
    }
    case Kind::kStateInquiry:
      return finish(in, RootMessage(StateInquiry{in.number<uint32_t>()}));
    case Kind::kPong:
      return finish(in, RootMessage(PongMessage{in.number<uint64_t>()}));
    default:
      return makeStatus(Code::kRemoteError, "a control message of unknown kind");
  }
}

bool isCounted(const RankMessage& message) {
  return !std::holds_alternative<HelloMessage>(message) && !std::holds_alternative<BeatMessage>(message) &&
         !std::holds_alternative<ReturnMessage>(message) && !std::holds_alternative<PingMessage>(message);
}

bool isCounted(const RootMessage& message) {
  return !std::holds_alternative<BeatEchoMessage>(message) &&
         !std::holds_alternative<ReturnedMessage>(message) && !std::holds_alternative<PongMessage>(message);
}

size_t maxRankMessageBytes() {
  return kMaxGatherBytes + kMaxReasonText + 64;
}

size_t maxRootMessageBytes(int ranks) {
  return static_cast<size_t>(ranks) * (kMaxGatherBytes + kMaxProcessBytes) + kMaxReasonText + 256;
}

}  // namespace horing
