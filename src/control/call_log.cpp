#include "control/call_log.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace horing {

namespace {

std::string countText(uint64_t count) {
  if (!(count & kCountsDiffer)) return std::to_string(count);
  if (count == kCountsDiffer) return "several";
  return formatString("several (sizes %08llx)", static_cast<unsigned long long>(count & 0xffffffff));
}

std::string textOf(const RecordedMessage& message) {
  if (message.kind == MessageKind::kGroup) return formatString("a group of %d messages", message.peer);
  const bool receives = message.kind == MessageKind::kReceive || message.kind == MessageKind::kSignalWait;
  const std::string peer = message.peer < 0 ? std::string("any rank") : formatString("rank %d", message.peer);
  return formatString("%s of %llu bytes %s %s", messageKindName(message.kind),
                      static_cast<unsigned long long>(message.bytes), receives ? "from" : "to", peer.c_str());
}

// "recv of 8 bytes from rank 1, and 2 more messages": the oldest.
std::string openMessagesText(const MessageRecorder& messages) {
  std::string text;
  size_t open = 0;
  for (const RecordedMessage& message : messages.lastAndOpen(MessageRecorder::kUsualEntries))
    if (message.state != MessageState::kComplete && open++ == 0) text = textOf(message);
  if (open > 1) text += formatString(", and %zu more message%s", open - 1, open == 2 ? "" : "s");
  return text.empty() ? "sends and receives" : text;
}

}  // namespace

uint64_t agreementDigest(const FlightRecord& record) {
  uint64_t digest = 0x686f72696e67;  // FNV-1a
  const auto add = [&digest](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) digest = (digest ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
  };
  add(static_cast<uint64_t>(record.collective));
  add(record.count);
  add(static_cast<uint64_t>(record.type));
  add(isReduction(record.collective) ? static_cast<uint64_t>(record.op) : 0);
  add(hasRoot(record.collective) ? static_cast<uint64_t>(record.root) : 0);
  for (const char* c = record.algorithm; c && *c; ++c) add(static_cast<unsigned char>(*c));
  return digest | 1;
}

std::string argumentsText(const FlightRecord& record) {
  const std::string count = countText(record.count);
  std::string text = formatString("%s x %s", count.c_str(), dataTypeName(record.type));
  if (isReduction(record.collective)) text += formatString(", %s", redOpName(record.op));
  if (hasRoot(record.collective)) text += formatString(", root %d", record.root);
  if (record.algorithm) text += formatString(", algorithm %s", record.algorithm);
  return text;
}

void CallLog::waits(uint64_t sequence, Obstacle obstacle) {
  if (obstacle.ranks.size() > kMaxWaitedFor) obstacle.ranks.resize(kMaxWaitedFor);
  if (obstacle.gives_to.size() > kMaxWaitedFor) obstacle.gives_to.resize(kMaxWaitedFor);
  const std::lock_guard lock(mutex_);
  waits_ = true;
  waiting_sequence_ = sequence;
  obstacle_ = std::move(obstacle);
}

void CallLog::goesOn() {
  const std::lock_guard lock(mutex_);
  waits_ = false;
}

RankState CallLog::state(int64_t now_ns) const {
  RankState state;
  uint64_t current = kExchange;
  if (exchanges_.load(std::memory_order_acquire)) {
    state.doing = RankState::Doing::kExchange;
  } else if (const uint64_t begun = recorder_.begun(); begun > recorder_.ended()) {
    current = state.sequence = begun - 1;
    if (const std::optional<FlightRecord> record = recorder_.find(current)) {
      state.doing = RankState::Doing::kCollective;
      state.name = collectiveName(record->collective);
    }
  }
  const std::lock_guard lock(mutex_);
  if (state.doing == RankState::Doing::kNothing || !waits_ || waiting_sequence_ != current) return state;
  state.takes_from = obstacle_.ranks;
  state.gives_to = obstacle_.gives_to;
  const int64_t idle_ms = (now_ns - obstacle_.since_ns) / 1'000'000;
  state.idle_ms = static_cast<uint32_t>(std::clamp<int64_t>(idle_ms, 0, UINT32_MAX));
  return state;
}

std::string CallLog::nowText() const {
  if (exchanges_.load(std::memory_order_acquire)) return openMessagesText(messages_);
  const uint64_t begun = recorder_.begun();
  const std::optional<FlightRecord> record =
      begun > recorder_.ended() ? recorder_.find(begun - 1) : std::nullopt;
  if (!record || record->outcome != Outcome::kRunning) return {};
  return formatString("%s #%llu (%s)", collectiveName(record->collective),
                      static_cast<unsigned long long>(record->sequence), argumentsText(*record).c_str());
}

void CallLog::answerReplaysFrom(Replays replays) {
  const std::lock_guard lock(replays_mutex_);
  replays_ = std::move(replays);
}

std::vector<ReplayRuns> CallLog::replays() const {
  const std::lock_guard lock(replays_mutex_);
  return replays_ ? replays_() : std::vector<ReplayRuns>();
}

// What must be the same on all ranks is reported by the kernels' messages.
void CallLog::reportReplay(CallReport& report) const {
  const ReplayNumber number = ReplayNumber::decoded(report.sequence);
  ReplayNumber first = number;
  first.run = 0;
  ReplayRuns runs;
  for (const ReplayRuns& known : replays())
    if (known.of == first) runs = known;
  // Numbers wrap around after this many runs; ranks that wait for each other are only a few runs apart.
  const auto numberBehind = [&](uint64_t count) {
    constexpr uint64_t kRuns = uint64_t{ReplayNumber::kRunMask} + 1;
    const uint64_t ahead = (count - number.run) % kRuns;
    return report.sequence + ahead - (ahead < kRuns / 2 ? 0 : kRuns);
  };
  report.begun = runs.begun == 0 ? kFirstReplay : numberBehind(runs.begun);
  report.ended = runs.ended == 0 ? kFirstReplay : numberBehind(runs.ended);
  if (report.begun <= report.sequence || number.collective >= kCollectives) return;
  report.digest = 1;
  report.name = collectiveName(static_cast<Collective>(number.collective));
}

CallReport CallLog::report(uint64_t sequence) const {
  CallReport report;
  report.sequence = sequence;
  report.begun = first_ + recorder_.begun();
  report.ended = first_ + recorder_.ended();
  if (sequence >= kFirstReplay) {
    reportReplay(report);
  } else if (const std::optional<FlightRecord> record = recorder_.find(sequence - first_)) {
    report.digest = agreementDigest(*record);
    report.name = collectiveName(record->collective);
    report.arguments = argumentsText(*record);
  }
  const std::lock_guard lock(mutex_);
  // The kernels of a replay report the end also when they gave up. The report then says that the call waits.
  if (waits_ && waiting_sequence_ == sequence && sequence >= kFirstReplay)
    report.ended = std::min(report.ended, sequence);
  if (waiting_sequence_ == sequence && report.begun > sequence && report.ended <= sequence) {
    report.waits_for = obstacle_.ranks;
    report.obstacle = obstacle_.text;
  }
  return report;
}

}  // namespace horing
