#include "control/control_messages.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/fields.h"
#include "control/job_window.h"
#include "control/root_service.h"

namespace horing {

namespace {

// A message begins with its kind. control/control_journal.h says which kinds are counted.
struct ControlKind {
  uint8_t number = 0;
  bool is_counted = true;
};
template <typename Message>
constexpr ControlKind kKindOf{};
// From ranks.
template <>
constexpr ControlKind kKindOf<HelloMessage>{1, false};
template <>
constexpr ControlKind kKindOf<GatherMessage>{2};
template <>
constexpr ControlKind kKindOf<AnnounceMessage>{3};
template <>
constexpr ControlKind kKindOf<GoodbyeMessage>{4};
template <>
constexpr ControlKind kKindOf<BeatMessage>{5, false};
template <>
constexpr ControlKind kKindOf<CallReport>{6};
template <>
constexpr ControlKind kKindOf<ReturnMessage>{7, false};
template <>
constexpr ControlKind kKindOf<RankState>{8};
template <>
constexpr ControlKind kKindOf<PingMessage>{9, false};
template <>
constexpr ControlKind kKindOf<Pace>{10, false};
template <>
constexpr ControlKind kKindOf<JobQuestion>{11, false};
// From the rendezvous.
template <>
constexpr ControlKind kKindOf<WelcomeMessage>{17};
template <>
constexpr ControlKind kKindOf<GatheredMessage>{18};
template <>
constexpr ControlKind kKindOf<FailureMessage>{19};
template <>
constexpr ControlKind kKindOf<ClosingMessage>{20};
template <>
constexpr ControlKind kKindOf<BeatEchoMessage>{21, false};
template <>
constexpr ControlKind kKindOf<CallInquiry>{22};
template <>
constexpr ControlKind kKindOf<ReturnedMessage>{23, false};
template <>
constexpr ControlKind kKindOf<StateInquiry>{24};
template <>
constexpr ControlKind kKindOf<PongMessage>{25, false};
template <>
constexpr ControlKind kKindOf<JobAnswer>{26, false};

template <typename... OfRanks, typename... OfRoot>
constexpr bool allHaveTheirOwnKind(const std::variant<OfRanks...>*, const std::variant<OfRoot...>*) {
  std::array numbers{kKindOf<OfRanks>.number..., kKindOf<OfRoot>.number...};
  std::sort(numbers.begin(), numbers.end());
  return numbers.front() != 0 && std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
}
static_assert(allHaveTheirOwnKind(static_cast<RankMessage*>(nullptr), static_cast<RootMessage*>(nullptr)));

// --- The fields of each message, in wire order.

constexpr size_t kMaxProcessBytes = 4 + kMaxHostText + 16;

void fields(auto& wire, Is<ProcessName> auto& process) {
  auto& [host, pid, pid_namespace] = process;
  wire.text(host, kMaxHostText);
  wire.numbers(pid, pid_namespace);
}

// An error code that this version does not know still counts as an error.
void fields(auto& wire, Is<Code> auto& code) {
  wire.numberOf(
      code, [](Code known) { return static_cast<uint8_t>(known); },
      [](uint8_t number) {
        const auto known = static_cast<Code>(number);
        return known < Code::kUnhandledCudaError || known > Code::kTimeout ? Code::kInternalError : known;
      });
}

void ranksWaitedFor(auto& wire, auto& ranks) {
  wire.list(ranks, kMaxWaitedFor, [&](auto& rank) { wire.numbers(rank); });
}

void fields(auto& wire, Is<HelloMessage> auto& message) {
  auto& [rank, ranks, timeout_ms, process, secret, spent_ms] = message;
  wire.numbers(rank, ranks, timeout_ms);
  fields(wire, process);
  wire.raw(secret);
  wire.numbers(spent_ms);
}

void fields(auto& wire, Is<GatherMessage> auto& message) {
  auto& [exchange, timeout_ms, part, what] = message;
  wire.numbers(exchange, timeout_ms);
  wire.blob(part, kMaxGatherBytes);
  wire.text(what, kMaxCallName);
}

void fields(auto& wire, Is<AnnounceMessage> auto& message) {
  auto& [code, reason] = message;
  fields(wire, code);
  wire.text(reason, kMaxReasonText);
}

static_assert(std::is_empty_v<GoodbyeMessage> && std::is_empty_v<ClosingMessage> &&
              std::is_empty_v<JobQuestion>);
void fields(auto&, Is<GoodbyeMessage, ClosingMessage, JobQuestion> auto&) {}

void fields(auto& wire, Is<BeatMessage> auto& message) {
  auto& [interval_ms, received] = message;
  wire.numbers(interval_ms, received);
}

void fields(auto& wire, Is<ReturnMessage> auto& message) {
  auto& [rank, secret, received] = message;
  wire.numbers(rank);
  wire.raw(secret);
  wire.numbers(received);
}

void fields(auto& wire, Is<RankState> auto& message) {
  auto& [doing, round, sequence, name, idle_ms, overdue_ms, takes_from, gives_to] = message;
  wire.numbers(doing, round, sequence);
  wire.require(doing <= RankState::Doing::kExchange);
  wire.text(name, kMaxCallName);
  wire.numbers(idle_ms, overdue_ms);
  ranksWaitedFor(wire, takes_from);
  ranksWaitedFor(wire, gives_to);
}

void fields(auto& wire, Is<CallReport> auto& message) {
  auto& [kind, sequence, round, begun, ended, digest, name, arguments, timeout_ms, waits_for, obstacle] =
      message;
  wire.numbers(kind, sequence, round, begun, ended, digest);
  wire.require(kind <= CallReport::Kind::kOverdue);
  wire.text(name, kMaxCallName);
  wire.text(arguments, kMaxCallText);
  wire.numbers(timeout_ms);
  ranksWaitedFor(wire, waits_for);
  wire.text(obstacle, kMaxObstacleText);
}

void fields(auto& wire, Is<Pace> auto& message) {
  auto& [interval_us, calls, inside_us, waits, bytes, now] = message;
  wire.numbers(interval_us, calls, inside_us);
  wire.list(waits, kMaxPaceWaits, [&](auto& item) {
    auto& [wait, us] = item;
    auto& [peer, for_room] = wait;
    wire.numbers(peer, for_room, us);
  });
  wire.numbers(bytes);
  wire.text(now, kMaxCallName + kMaxCallText);
}

void fields(auto& wire, Is<WelcomeMessage> auto& message) {
  auto& [host_rank, host, ranks, return_port] = message;
  wire.numbers(host_rank);
  fields(wire, host);
  wire.list(ranks, kMaxRanks, [&](auto& process) { fields(wire, process); });
  wire.numbers(return_port);
}

void fields(auto& wire, Is<GatheredMessage> auto& message) {
  auto& [exchange, parts] = message;
  wire.numbers(exchange);
  wire.list(parts, kMaxRanks, [&](auto& part) { wire.blob(part, kMaxGatherBytes); });
}

void fields(auto& wire, Is<JobAnswer> auto& message) {
  auto& [lines] = message;
  wire.list(lines, kMaxJobText, [&](auto& line) { wire.text(line, kMaxJobLine); });
}

void fields(auto& wire, Is<FailureMessage> auto& message) {
  auto& [code, rank, reason] = message;
  fields(wire, code);
  wire.numbers(rank);
  wire.text(reason, kMaxReasonText);
}

void fields(auto& wire, Is<BeatEchoMessage, ReturnedMessage> auto& message) {
  auto& [received] = message;
  wire.numbers(received);
}

void fields(auto& wire, Is<CallInquiry> auto& message) {
  auto& [sequence, round] = message;
  wire.numbers(sequence, round);
}

void fields(auto& wire, Is<StateInquiry> auto& message) {
  auto& [round] = message;
  wire.numbers(round);
}

void fields(auto& wire, Is<PingMessage, PongMessage> auto& message) {
  auto& [number] = message;
  wire.numbers(number);
}

// --- Encoding and decoding of all messages.

template <typename Variant>
std::vector<std::byte> encode(const Variant& message) {
  FieldWriter wire;
  std::visit(
      [&]<typename Message>(const Message& each) {
        wire.numbers(kKindOf<Message>.number);
        fields(wire, each);
      },
      message);
  return wire.take();
}

// False: the message is of another kind. It is made in its place, since g++ 12 warns of uninitialised members where a variant is moved.
template <typename Message, typename Variant>
bool readAs(uint8_t kind, FieldReader& wire, Variant& into) {
  if (kind != kKindOf<Message>.number) return false;
  fields(wire, into.template emplace<Message>());
  return true;
}

template <typename... Messages>
Result<std::variant<Messages...>> decode(std::span<const std::byte> bytes,
                                         std::type_identity<std::variant<Messages...>>) {
  FieldReader wire(bytes);
  uint8_t kind = 0;
  wire.numbers(kind);
  std::variant<Messages...> message;
  if (!(readAs<Messages>(kind, wire, message) || ...))
    return makeStatus(Code::kRemoteError, "a control message of the unknown kind %u", unsigned{kind});
  if (!wire.complete())
    return makeStatus(Code::kRemoteError, "a control message of kind %u is damaged", unsigned{kind});
  return message;
}

template <typename Variant>
bool isCountedKind(const Variant& message) {
  return std::visit([]<typename Message>(const Message&) { return kKindOf<Message>.is_counted; }, message);
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
  return encode(message);
}

std::vector<std::byte> encodeMessage(const RootMessage& message) {
  return encode(message);
}

Result<RankMessage> decodeRankMessage(std::span<const std::byte> bytes) {
  return decode(bytes, std::type_identity<RankMessage>());
}

Result<RootMessage> decodeRootMessage(std::span<const std::byte> bytes) {
  return decode(bytes, std::type_identity<RootMessage>());
}

bool isCounted(const RankMessage& message) {
  return isCountedKind(message);
}

bool isCounted(const RootMessage& message) {
  return isCountedKind(message);
}

size_t maxRankMessageBytes() {
  return kMaxGatherBytes + kMaxReasonText + 64;
}

size_t maxRootMessageBytes(int ranks) {
  return static_cast<size_t>(ranks) * (kMaxGatherBytes + kMaxProcessBytes) + kMaxReasonText + 256;
}

}  // namespace horing
