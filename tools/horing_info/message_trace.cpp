#include "horing_info/message_trace.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/message_recorder.h"
#include "base/number.h"
#include "base/status.h"
#include "control/flight_file.h"

namespace horing::info {

namespace {

constexpr size_t kMostShown = 3;           // open messages of a rank
constexpr size_t kMostVerdicts = 8;        // the lines of the ranks say the rest
constexpr int64_t kHangsNs = 200'000'000;  // a message that has waited less may be about to arrive

unsigned long long shown(uint64_t number) {
  return number;
}

std::string textOf(const TracedMessage& message) {
  if (message.isGroup())
    return formatString("a group of %d messages, %llu bytes", message.peer, shown(message.bytes));
  const bool sends = message.call == "send" || message.call == "put" || message.call == "signal";
  std::string text = message.call;
  if (message.bytes > 0 || message.call == "send" || message.call == "recv")
    text += formatString(" of %llu bytes", shown(message.bytes));
  text += sends ? " to " : " from ";
  text += message.peer < 0 ? std::string("any rank") : formatString("rank %d", message.peer);
  return text + message.mark;
}

std::string markOf(const TracedMessage& message, const nlohmann::json& from) {
  if (message.has_tag) return formatString(" with tag %llu", shown(message.number));
  if (from.contains("number")) return formatString(" (#%llu)", shown(message.number));
  if (from.contains("launch"))
    return formatString(" (launch #%llu)", shown(from.at("launch").get<uint64_t>()));
  return {};
}

uint64_t tagOf(const std::string& text) {
  const std::optional<uint64_t> tag = numberOf<uint64_t>(text);
  if (!tag) throw std::invalid_argument("a tag is no number");
  return *tag;
}

// Of a message; of a group, how many it has. -1: any rank.
int peerOf(const nlohmann::json& from, bool is_group, int ranks) {
  const auto peer = from.at(is_group ? "messages" : "peer").get<int64_t>();
  const int64_t least = is_group ? 0 : -1, most = is_group ? std::numeric_limits<int>::max() : ranks - 1;
  if (peer < least || peer > most) throw std::invalid_argument("the peer of a message is out of range");
  return static_cast<int>(peer);
}

// `text`, if it is one of these names.
template <typename Value, size_t kMany>
std::string oneOf(const std::array<Value, kMany>& values, const char* (*name)(Value),
                  const std::string& text) {
  if (std::ranges::none_of(values, [&](Value value) { return text == name(value); }))
    throw std::invalid_argument("the call or the state of a message is unknown");
  return text;
}

constexpr std::array kKinds = {MessageKind::kSend,   MessageKind::kReceive,    MessageKind::kPut,
                               MessageKind::kSignal, MessageKind::kSignalWait, MessageKind::kGroup};
constexpr std::array kStates = {MessageState::kEnqueued, MessageState::kStarted, MessageState::kComplete};

// What the peer has to call for a message; empty: nothing, or that is not known.
std::string counterpartOf(const TracedMessage& message) {
  if (message.call == "recv") return "send";
  return message.call == "send" && !message.has_tag ? "recv" : "";
}

// Where the messages begin behind which none is left out.
size_t firstGapless(const std::vector<TracedMessage>& messages) {
  size_t first = messages.size();
  while (first > 0 &&
         (first == messages.size() || messages[first - 1].sequence + 1 == messages[first].sequence))
    --first;
  return first;
}

// Whether the records of a rank prove that it has not begun what `message` of rank `from` waits for. Calls that wait for their turn on a
// stream have no record yet.
bool isMissing(const TracedMessage& message, int from, const MessagesOfRank& peer) {
  const std::string wanted = counterpartOf(message);
  if (wanted.empty()) return false;
  // Of large groups not each message has a record, and kernels do not number theirs.
  const auto may_be_it = [&](const TracedMessage& other) {
    return other.isGroup() || (other.call == wanted && other.peer == from);
  };
  if (std::ranges::any_of(peer.host, &TracedMessage::isGroup) || std::ranges::any_of(peer.kernels, may_be_it))
    return false;
  // Of older messages only those are there that were not complete. Messages without a tag are begun in order.
  const size_t gapless = peer.host.size() - firstGapless(peer.host);
  bool is_there_if_begun = peer.host.empty() || peer.host.back().sequence + 1 == gapless;
  for (size_t i = 0; i < peer.host.size(); ++i) {
    const TracedMessage& other = peer.host[i];
    if (other.call != wanted || other.peer != from || other.has_tag != message.has_tag) continue;
    if (message.has_tag ? other.number == message.number : other.number >= message.number) return false;
    is_there_if_begun = is_there_if_begun || (!message.has_tag && i >= peer.host.size() - gapless);
  }
  return is_there_if_begun;
}

bool waits(const MessagesOfRank& rank) {
  return rank.is_in_call || std::ranges::any_of(rank.host, &TracedMessage::isOpen) ||
         std::ranges::any_of(rank.kernels, &TracedMessage::isOpen);
}

TracedMessage parseMessage(const nlohmann::json& from, int ranks) {
  TracedMessage message;
  message.sequence = from.at("sequence");
  message.call = oneOf(kKinds, messageKindName, from.at("call"));
  message.state = oneOf(kStates, messageStateName, from.at("state"));
  message.peer = peerOf(from, message.isGroup(), ranks);
  message.bytes = from.at("bytes");
  message.has_tag = from.contains("tag");
  message.number = message.has_tag ? tagOf(from.at("tag")) : from.value("number", uint64_t{0});
  message.mark = markOf(message, from);
  message.enqueued_ns = from.at("enqueued_ns");
  if (message.enqueued_ns < 0) throw std::invalid_argument("the time of a message is out of range");
  return message;
}

// A message that waits for what its peer has not begun, or for a peer without a file.
struct LongWait {
  int rank;
  const TracedMessage& message;
  int64_t waited_ns;
  bool has_file, peer_waits;  // of its peer

  std::string text() const {
    const std::string why = has_file
                                ? formatString("has not begun the %s for it", counterpartOf(message).c_str())
                                : std::string("left no file");
    return formatString("rank %d has waited %lld ms in %s, and rank %d %s", rank,
                        static_cast<long long>(waited_ns / 1'000'000), textOf(message).c_str(), message.peer,
                        why.c_str());
  }
};

std::vector<const LongWait*> told(const std::vector<LongWait>& found, bool was_lost) {
  const bool all_wait = std::ranges::all_of(found, &LongWait::peer_waits);
  std::vector<const LongWait*> waits;
  // Ranks that wait themselves are no cause, nor are those that are there if one is lost.
  for (const LongWait& wait : found)
    if (was_lost ? !wait.has_file : all_wait || !wait.peer_waits) waits.push_back(&wait);
  std::ranges::stable_sort(waits, {},
                           [](const LongWait* wait) { return std::pair(wait->has_file, -wait->waited_ns); });
  return waits;
}

}  // namespace

std::vector<TracedMessage> parseMessages(const nlohmann::json& from, int ranks) {
  if (from.size() > kMostFlightMessages) throw std::invalid_argument("it has more messages than are written");
  std::vector<TracedMessage> messages;
  for (const nlohmann::json& one : from) {
    messages.push_back(parseMessage(one, ranks));
    if (messages.size() > 1 && messages.back().sequence <= messages[messages.size() - 2].sequence)
      throw std::invalid_argument("its messages are out of order");
  }
  return messages;
}

std::string openMessagesText(const std::vector<TracedMessage>& messages, int64_t now_ns) {
  std::string text;
  size_t open = 0;
  for (const TracedMessage& message : messages) {
    if (!message.isOpen() || ++open > kMostShown) continue;
    text +=
        formatString("%sin %s for %lld ms", text.empty() ? "" : "; ", textOf(message).c_str(),
                     static_cast<long long>(std::max<int64_t>(now_ns - message.enqueued_ns, 0) / 1'000'000));
  }
  if (open > kMostShown) text += formatString("; and %zu more messages", open - kMostShown);
  return text;
}

std::vector<std::string> verdictsOnMessages(const std::map<int, MessagesOfRank>& of_ranks, bool was_lost) {
  std::vector<LongWait> found;
  for (const auto& [rank, records] : of_ranks)
    for (const TracedMessage& message : records.host) {
      const int64_t waited_ns = records.now_ns - message.enqueued_ns;
      if (!message.isOpen() || message.isGroup() || message.peer < 0 || waited_ns < kHangsNs) continue;
      const auto peer = of_ranks.find(message.peer);
      const bool has_file = peer != of_ranks.end();
      if (!has_file || isMissing(message, rank, peer->second))
        found.push_back({rank, message, waited_ns, has_file, has_file && waits(peer->second)});
    }
  std::vector<std::string> verdicts;
  const std::vector<const LongWait*> waits_told = told(found, was_lost);
  for (const LongWait* const wait : waits_told)
    if (verdicts.size() < kMostVerdicts) verdicts.push_back(wait->text());
  if (waits_told.size() > kMostVerdicts)
    verdicts.push_back(formatString("and %zu more", waits_told.size() - kMostVerdicts));
  return verdicts;
}

}  // namespace horing::info
