#include "control/rendezvous.h"

#include <algorithm>

#include "base/check.h"
#include "control/job_window.h"
#include "control/rank_list.h"
#include "control/root_service.h"

namespace horing {

namespace {

constexpr uint32_t kLongestTimeoutMs = 86'400'000;
constexpr int64_t kLateMs = 10'000;

SharedMessage shared(const RootMessage& message) {
  return std::make_shared<const std::vector<std::byte>>(encodeMessage(message));
}

std::string nameOf(int rank, const ProcessName& process) {
  return formatString("rank %d (%s)", rank, process.toString().c_str());
}

}  // namespace

std::string Rendezvous::name(int rank) const {
  return nameOf(rank, members_[static_cast<size_t>(rank)].process);
}

Status Rendezvous::judge(const HelloMessage& hello) const {
  const std::string who = nameOf(hello.rank, hello.process);
  if (hello.ranks < 1 || hello.ranks > kMaxRanks)
    return makeStatus(Code::kInvalidArgument, "%s asked for a communicator of %d ranks: 1 to %d are possible",
                      who.c_str(), hello.ranks, kMaxRanks);
  if (ranks_ > 0 && hello.ranks != ranks_)
    return makeStatus(
        Code::kInvalidArgument,
        "%s asked for a communicator of %d ranks, %s for one of %d: pass the same number on every rank",
        who.c_str(), hello.ranks, name(first_rank_).c_str(), ranks_);
  if (hello.rank < 0 || hello.rank >= hello.ranks)
    return makeStatus(Code::kInvalidArgument, "%s of a communicator of %d ranks: ranks are 0 to %d",
                      who.c_str(), hello.ranks, hello.ranks - 1);
  if (ranks_ > 0 && members_[static_cast<size_t>(hello.rank)].presence != Presence::kAwaited)
    return makeStatus(Code::kInvalidUsage,
                      "two processes joined as one rank: %s and %s. Give every process a different rank, and "
                      "every communicator a different ID",
                      name(hello.rank).c_str(), who.c_str());
  return {};
}

Status Rendezvous::hello(const HelloMessage& hello, int64_t now_ns) {
  // A process that comes late with a copy of the ID must not break a running communicator.
  if (complete()) {
    const Status judged = judge(hello);
    return judged.ok() ? makeStatus(Code::kInvalidUsage, "the communicator is complete") : judged;
  }
  if (failed_) {
    ++refused_;
    return Status(failure_.code, failure_.reason);
  }
  const Status judged = judge(hello);
  if (!judged.ok()) {
    ++refused_;
    fail(judged.code(), -1, judged.message());
    return judged;
  }
  if (ranks_ == 0) {
    ranks_ = hello.ranks;
    first_rank_ = hello.rank;
    members_.resize(static_cast<size_t>(ranks_));
  }
  Member& newcomer = member(hello.rank);
  newcomer.presence = Presence::kPresent;
  newcomer.process = hello.process;
  ++arrived_;
  ++present_;
  expect(hello.timeout_ms, hello.spent_ms, now_ns);
  if (complete()) welcome();
  return {};
}

// The exchange ends with the earliest deadline of its ranks.
void Rendezvous::expect(uint32_t timeout_ms, uint32_t spent_ms, int64_t now_ns) {
  if (!deadline_ns_) late_ns_ = now_ns + kLateMs * 1'000'000;
  timeout_ms = std::min(timeout_ms, kLongestTimeoutMs);
  const int64_t left_ms = timeout_ms - std::min(spent_ms, timeout_ms);
  const int64_t until_ns = now_ns + left_ms * 1'000'000;
  if (deadline_ns_ && *deadline_ns_ <= until_ns) return;
  deadline_ns_ = until_ns;
  timeout_ms_ = timeout_ms;
}

void Rendezvous::welcome() {
  WelcomeMessage message;
  message.host = host_;
  message.return_port = return_port_;
  for (int rank = 0; rank < ranks_; ++rank) {
    const ProcessName& process = member(rank).process;
    if (message.host_rank < 0 && process == host_) message.host_rank = rank;
    message.ranks.push_back(process);
  }
  broadcasts_.push_back(shared(std::move(message)));
  deadline_ns_.reset();
  exchange_ = 1;
}

Status Rendezvous::gather(int rank, GatherMessage message, int64_t now_ns) {
  if (failed_) return {};  // the rank has the failure, or gets it in a moment
  Member& giver = member(rank);
  if (!complete() || message.exchange != exchange_ || giver.gave)
    return makeStatus(Code::kRemoteError, "it took part in exchange %llu while %llu was going on",
                      static_cast<unsigned long long>(message.exchange),
                      static_cast<unsigned long long>(exchange_));
  if (what_.empty()) what_ = message.what;
  for (int other = 0; present_ < ranks_ && other < ranks_; ++other) {
    if (member(other).presence == Presence::kPresent) continue;
    fail(Code::kRemoteError, other,
         formatString("%s has left: %s, which %s began, cannot complete", name(other).c_str(),
                      exchangeText().c_str(), name(rank).c_str()));
    return {};
  }
  giver.gave = true;
  giver.part = std::move(message.part);
  ++gave_;
  expect(message.timeout_ms, 0, now_ns);
  if (gave_ == ranks_) finishExchange();
  return {};
}

void Rendezvous::finishExchange() {
  GatheredMessage message;
  message.exchange = exchange_++;
  for (Member& giver : members_) {
    message.parts.push_back(std::exchange(giver.part, {}));
    giver.gave = false;
  }
  gave_ = 0;
  what_.clear();
  deadline_ns_.reset();
  broadcasts_.push_back(shared(std::move(message)));
}

void Rendezvous::fail(Code code, int about_rank, std::string reason) {
  if (failed_) return;
  failed_ = true;
  deadline_ns_.reset();
  failure_ = {code, about_rank, std::move(reason)};
  broadcasts_.push_back(shared(failure_));
}

void Rendezvous::cannotTakeMore(const Status& why) {
  if (!complete()) fail(why.code(), -1, why.message());
}

void Rendezvous::announce(int rank, const AnnounceMessage& message) {
  fail(Code::kRemoteError, rank,
       formatString("%s stopped with %s: %s", name(rank).c_str(), codeName(message.code),
                    message.reason.c_str()));
}

void Rendezvous::goodbye(int rank) {
  HORING_CHECK(member(rank).presence == Presence::kPresent);
  member(rank).presence = Presence::kLeft;
  ledger_.left(rank, ranks_);
  --present_;
  if (!complete() || gave_ > 0)
    fail(Code::kRemoteError, rank,
         formatString("%s left while other ranks waited for it in %s", name(rank).c_str(),
                      exchangeText().c_str()));
}

void Rendezvous::lost(int rank, const std::string& why) {
  HORING_CHECK(member(rank).presence == Presence::kPresent);
  member(rank).presence = Presence::kLost;
  --present_;
  fail(Code::kRemoteError, rank,
       formatString("%s is lost: %s. Look at its output, and for a process that was killed or a machine that "
                    "lost its network",
                    name(rank).c_str(), why.c_str()));
}

void Rendezvous::silent(std::span<const int> ranks, int64_t silence_ms) {
  const bool one = ranks.size() == 1;
  const std::string who = one ? name(ranks[0])
                              : formatString("ranks %s (the first on %s)", rankList(ranks).c_str(),
                                             member(ranks[0]).process.toString().c_str());
  fail(Code::kRemoteError, ranks[0],
       formatString(
           "%s %s been silent for %lld ms: stopped (SIGSTOP, a debugger), on a machine that hangs, or "
           "cut off from the network. HORING_HEARTBEAT_MS=0 turns this check off",
           who.c_str(), one ? "has" : "have", static_cast<long long>(silence_ms)));
}

void Rendezvous::tick(int64_t now_ns) {
  if (deadline_ns_ && now_ns >= *deadline_ns_) fail(Code::kTimeout, missing().front(), late(timeout_ms_));
  judgeCalls(now_ns);
}

std::string Rendezvous::takeLate(int64_t now_ns) {
  if (!deadline_ns_ || now_ns < late_ns_) return {};
  late_ns_ = INT64_MAX;
  return late(kLateMs);
}

int64_t Rendezvous::nextTickNs() const {
  if (failed_) return INT64_MAX;
  return std::min({deadline_ns_.value_or(INT64_MAX), deadline_ns_ ? late_ns_ : INT64_MAX,
                   ledger_.nextLookNs(), waiting_.nextLookNs()});
}

void Rendezvous::report(int rank, CallReport report, int64_t now_ns) {
  if (failed_ || !complete()) return;
  ledger_.report(rank, ranks_, std::move(report), now_ns);
  for (const CallInquiry& inquiry : ledger_.takeInquiries()) broadcasts_.push_back(shared(inquiry));
  judgeCalls(now_ns);
}

void Rendezvous::tell(int rank, RankState state, int64_t now_ns) {
  if (failed_ || !complete()) return;
  waiting_.tell(rank, ranks_, std::move(state), now_ns);
  if (const std::optional<uint32_t> round = waiting_.takeInquiry())
    broadcasts_.push_back(shared(StateInquiry{*round}));
  judgeCalls(now_ns);
}

void Rendezvous::notePace(int rank, const Pace& pace, int64_t now_ns) {
  if (failed_ || !complete()) return;
  const auto share_node = [this](int one, int other) {
    return member(one).process.host == member(other).process.host;
  };
  paces_.tell(rank, {ranks_, share_node}, pace, now_ns);
  member(rank).pace = pace;
  member(rank).pace_ns = now_ns;
}

std::vector<std::string> Rendezvous::jobLines(int64_t now_ns,
                                              const std::function<int64_t(int)>& silence_ns) const {
  std::vector<std::string> lines;
  for (const PaceFinding& finding : paces_.lasting()) lines.push_back(text(finding, true));
  if (lines.empty()) lines.push_back(standstill(now_ns));
  if (lines.front().empty())
    lines.front() = "by the calls that have ended, no rank comes late and no path is slow";
  constexpr int64_t kQuietMs = 1500;
  size_t bytes = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (bytes > kMaxJobText / 2) {
      lines.push_back(formatString("... and %d more ranks", ranks_ - rank));
      break;
    }
    const Member& each = members_[static_cast<size_t>(rank)];
    const bool is_recent = each.hasPaceAt(now_ns);
    const int64_t silence_ms = silence_ns(rank) / 1'000'000;
    std::string what = is_recent ? paceText(each.pace) : "no calls";
    if (silence_ms >= kQuietMs)
      what = formatString("nothing heard of it for %.2g s", static_cast<double>(silence_ms) / 1000);
    lines.push_back(name(rank) + ": " + what);
    bytes += lines.back().size();
  }
  return lines;
}

// "ranks 0, 1, 3 have ended no call for a second or more, rank 0 is in all_reduce #7 (...); rank 2 is in no call"; empty: not so.
std::string Rendezvous::standstill(int64_t now_ns) const {
  std::vector<int> inside, outside;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Member& each = members_[static_cast<size_t>(rank)];
    if (!each.hasPaceAt(now_ns))
      outside.push_back(rank);
    else if (each.pace.calls == 0 && !each.pace.now.empty())
      inside.push_back(rank);
  }
  if (inside.empty() || outside.empty()) return {};
  const auto these = [](const std::vector<int>& ranks, const char* one, const char* several) {
    return formatString("%s %s %s", ranks.size() == 1 ? "rank" : "ranks", rankList(ranks).c_str(),
                        ranks.size() == 1 ? one : several);
  };
  return formatString("%s ended no call for a second or more, rank %d is in %s; %s in no call",
                      these(inside, "has", "have").c_str(), inside.front(),
                      members_[static_cast<size_t>(inside.front())].pace.now.c_str(),
                      these(outside, "is", "are").c_str());
}

std::vector<std::string> Rendezvous::takePaceNews() {
  std::vector<std::string> news;
  for (const PaceFinding& finding : paces_.takeBegun()) news.push_back(text(finding, true));
  for (const PaceFinding& finding : paces_.takeEnded()) news.push_back(text(finding, false));
  return news;
}

std::string Rendezvous::text(const PaceFinding& finding, bool lasts) const {
  const double percent = 100 * finding.share;
  const std::string who = name(finding.rank);
  if (finding.to < 0)
    return lasts ? formatString(
                       "%s comes late: in each call the others wait %.3g ms for it, %.0f %% of the time",
                       who.c_str(), static_cast<double>(finding.per_call_us) / 1000, percent)
                 : formatString("%s does not come late any more", who.c_str());
  const std::string path = formatString("from %s to %s", who.c_str(), name(finding.to).c_str());
  return lasts ? formatString(
                     "data moves slowly %s: both wait for that %.0f %% of the time, longer than others do",
                     path.c_str(), percent)
               : formatString("data does not move slowly any more %s", path.c_str());
}

void Rendezvous::judgeCalls(int64_t now_ns) {
  if (failed_) return;
  const Attendance attendance{ranks_, present_,
                              [this](int rank) { return member(rank).presence == Presence::kPresent; }};
  std::optional<CallVerdict> verdict = ledger_.judge(attendance, now_ns);
  if (!verdict) verdict = waiting_.judge(attendance, now_ns);
  if (verdict) fail(verdict->code, verdict->rank, verdict->reason);
}

// Of the exchange in progress.
bool Rendezvous::came(int rank) const {
  const Member& m = members_[static_cast<size_t>(rank)];
  return exchange_ == 0 ? m.presence != Presence::kAwaited : m.gave;
}

std::vector<int> Rendezvous::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!came(rank)) ranks.push_back(rank);
  return ranks;
}

std::string Rendezvous::late(int64_t ms) const {
  const std::vector<int> missing = this->missing();
  std::vector<int> there;
  for (int rank = 0; rank < ranks_; ++rank)
    if (came(rank)) there.push_back(rank);
  const char* noun = missing.size() == 1 ? "rank" : "ranks";
  if (exchange_ == 0)
    return formatString("%s %s of %d did not arrive within %lld ms; arrived: %s%s%s", noun,
                        rankList(missing).c_str(), ranks_, static_cast<long long>(ms),
                        rankList(there).c_str(), trouble_.empty() ? "" : ". Meanwhile ", trouble_.c_str());
  return formatString("%s %s of %d did not take part in %s within %lld ms; those that did: %s", noun,
                      rankList(missing).c_str(), ranks_, exchangeText().c_str(), static_cast<long long>(ms),
                      rankList(there).c_str());
}

std::string Rendezvous::exchangeText() const {
  return what_.empty() ? formatString("exchange %llu", static_cast<unsigned long long>(exchange_)) : what_;
}

}  // namespace horing
