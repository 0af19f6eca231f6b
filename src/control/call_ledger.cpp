#include "control/call_ledger.h"

#include <algorithm>
#include <set>

#include "control/inquiry_times.h"
#include "control/rank_list.h"

namespace horing {

namespace {

constexpr size_t kShownObstacles = 8;

std::string callText(const CallReport& report) {
  return formatString("%s (%s)", report.name.c_str(), report.arguments.c_str());
}

std::string ranksText(const std::vector<int>& ranks) {
  return formatString("%s %s", ranks.size() == 1 ? "rank" : "ranks", rankList(ranks).c_str());
}

}  // namespace

CallLedger::Case& CallLedger::caseOf(uint64_t sequence, int ranks, int64_t now_ns) {
  if (!cases_.contains(sequence) && cases_.size() == kMaxCases) {
    // Waiting ranks repeat their reports, so the case with the oldest report is over.
    const auto over = std::min_element(cases_.begin(), cases_.end(), [](const auto& a, const auto& b) {
      return a.second.heard_ns < b.second.heard_ns;
    });
    cases_.erase(over);
  }
  Case& one = cases_[sequence];
  one.reports.resize(static_cast<size_t>(ranks));
  one.heard_ns = now_ns;
  return one;
}

void CallLedger::note(Case& one, int rank, CallReport report) {
  std::optional<CallReport>& known = one.reports[static_cast<size_t>(rank)];
  // A report that was not asked for does not answer the latest inquiry; the rank may have answered an earlier one.
  if (report.kind != CallReport::Kind::kAnswer) report.round = known ? known->round : 0;
  if (known && known->digest != 0) {
    // The rank's log has dropped the call since: its earlier report still holds.
    if (report.digest == 0) {
      known->round = report.round;
      return;
    }
    --one.callers[known->digest];
    --one.called;
  }
  if (report.digest != 0) {
    ++one.callers[report.digest];
    ++one.called;
  }
  known = std::move(report);
}

void CallLedger::ask(uint64_t sequence, Case& one, int64_t now_ns) {
  if (one.round > 0 && now_ns - one.asked_ns < kAskAgainNs) return;
  one.asked_ns = now_ns;
  one.answered = 0;
  inquiries_.push_back({sequence, ++one.round});
}

void CallLedger::report(int rank, int ranks, CallReport report, int64_t now_ns) {
  Case& one = caseOf(report.sequence, ranks, now_ns);
  const uint64_t sequence = report.sequence;
  begun_.resize(static_cast<size_t>(ranks));
  Begun& begun = begun_[static_cast<size_t>(rank)];
  if (sequence < kFirstReplay) {
    uint64_t& latest = sequence < kFirstLaunch ? begun.calls : begun.launches;
    latest = std::max(latest, report.begun);
  }
  const CallReport::Kind kind = report.kind;
  if (kind == CallReport::Kind::kAnswer && report.round == one.round) ++one.answered;
  const bool first_overdue = kind == CallReport::Kind::kOverdue && one.overdue_ms == 0;
  if (first_overdue) one.overdue_ms = std::max(report.timeout_ms, 1u);
  note(one, rank, std::move(report));
  // One inquiry serves all calls whose deadlines pass at the same moment.
  if (kind == CallReport::Kind::kStalled || kind == CallReport::Kind::kMismatch || first_overdue)
    ask(sequence, one, now_ns);
  if (one.callers.size() > 1) one.decide_ns = std::min(one.decide_ns, now_ns + kMoreCallersNs);
  if (one.overdue_ms > 0) one.decide_ns = std::min(one.decide_ns, now_ns + kAnswersNs);
}

void CallLedger::left(int rank, int ranks) {
  begun_.resize(static_cast<size_t>(ranks));
  const Begun& begun = begun_[static_cast<size_t>(rank)];
  least_left_.calls = std::min(least_left_.calls, begun.calls);
  least_left_.launches = std::min(least_left_.launches, begun.launches);
}

bool CallLedger::ripe(const Case& one, const Attendance& attendance, int64_t now_ns) {
  if (one.decide_ns == INT64_MAX) return false;
  if (now_ns >= one.decide_ns) return true;
  if (one.callers.size() == 1 || one.overdue_ms > 0)
    return one.overdue_ms > 0 && one.answered >= attendance.present;
  for (const auto& [digest, callers] : one.callers)
    if (2 * callers > attendance.ranks) return true;
  return one.called == attendance.ranks;
}

std::optional<CallVerdict> CallLedger::judge(const Attendance& attendance, int64_t now_ns) const {
  for (const auto& [sequence, one] : cases_) {
    if (std::optional<CallVerdict> left = desertion(sequence, one, attendance)) return left;
    if (!ripe(one, attendance, now_ns)) continue;
    return one.callers.size() > 1 ? disagreement(sequence, one) : overdue(sequence, one, attendance);
  }
  return std::nullopt;
}

int64_t CallLedger::nextLookNs() const {
  int64_t next_ns = INT64_MAX;
  for (const auto& [sequence, one] : cases_) next_ns = std::min(next_ns, one.decide_ns);
  return next_ns;
}

// The majority is right. Without a majority no rank is blamed.
CallVerdict CallLedger::disagreement(uint64_t sequence, const Case& one) {
  std::map<uint64_t, std::vector<int>> ranks_of;
  for (size_t rank = 0; rank < one.reports.size(); ++rank)
    if (one.reports[rank] && one.reports[rank]->digest != 0)
      ranks_of[one.reports[rank]->digest].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> parties;
  for (auto& [digest, ranks] : ranks_of) parties.push_back(std::move(ranks));
  std::sort(parties.begin(), parties.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  CallVerdict verdict;
  if (parties[0].size() < parties.back().size()) verdict.rank = parties[0][0];
  verdict.reason = formatString("ranks disagree about %s%s: ", sequence < kFirstLaunch ? "call " : "",
                                callNumberText(sequence).c_str());
  for (size_t i = 0; i < parties.size() && i < kShownObstacles; ++i)
    verdict.reason += formatString("%s%s called %s", i == 0 ? "" : ", ", ranksText(parties[i]).c_str(),
                                   callText(*one.reports[static_cast<size_t>(parties[i][0])]).c_str());
  verdict.reason +=
      ". Every rank must call the same collectives in the same order with the same count, type, operation, "
      "root and algorithm of the call";
  return verdict;
}

// A rank that waits for a rank which has left will wait for ever: report it before the deadline. Costs nothing while no rank has
// left out of order.
std::optional<CallVerdict> CallLedger::desertion(uint64_t sequence, const Case& one,
                                                 const Attendance& attendance) const {
  if (least_left_.of(sequence) > sequence) return std::nullopt;
  std::vector<int> left, waiting;
  std::string name;
  for (size_t rank = 0; rank < one.reports.size(); ++rank) {
    const auto& report = one.reports[rank];
    const auto number = static_cast<int>(rank);
    if (!attendance.is_present(number)) {
      if (begun_[rank].of(sequence) <= sequence) left.push_back(number);
    } else if (report && report->digest != 0 && report->ended <= sequence) {
      waiting.push_back(number);
      name = report->name;
    }
  }
  if (left.empty() || waiting.empty()) return std::nullopt;
  return CallVerdict{Code::kRemoteError, left[0],
                     formatString("%s left (finalized or destroyed the communicator) after %llu %s, and %s "
                                  "in %s %s: every rank must make all "
                                  "calls before it leaves",
                                  ranksText(left).c_str(),
                                  static_cast<unsigned long long>(
                                      begun_[static_cast<size_t>(left[0])].of(sequence) % kFirstLaunch),
                                  sequence < kFirstLaunch ? "calls" : "launches of kernels",
                                  (ranksText(waiting) + (waiting.size() == 1 ? " waits" : " wait")).c_str(),
                                  name.c_str(), callNumberText(sequence).c_str())};
}

namespace {

// The ranks at the ends of the chains of waiting: start at each waiting rank and follow what it waits for.
std::vector<int> endOfWaiting(const std::vector<std::optional<CallReport>>& reports) {
  std::set<int> ends;
  for (size_t start = 0; start < reports.size(); ++start) {
    if (!reports[start] || reports[start]->waits_for.empty()) continue;
    std::set<int> passed;
    auto rank = static_cast<int>(start);
    while (passed.insert(rank).second) {
      const auto& report = reports[static_cast<size_t>(rank)];
      if (!report || report->waits_for.empty()) {
        ends.insert(rank);
        break;
      }
      const int next = report->waits_for[0];
      if (next < 0 || static_cast<size_t>(next) >= reports.size()) break;
      rank = next;
    }
  }
  return {ends.begin(), ends.end()};
}

std::string obstaclesText(const std::vector<std::optional<CallReport>>& reports) {
  std::string text;
  size_t shown = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank] || reports[rank]->obstacle.empty()) continue;
    if (shown++ == kShownObstacles) return text + "; and so on";
    text += formatString("%srank %zu: %s", text.empty() ? "" : "; ", rank, reports[rank]->obstacle.c_str());
  }
  return text;
}

}  // namespace

CallVerdict CallLedger::overdue(uint64_t sequence, const Case& one, const Attendance& attendance) const {
  std::vector<int> never, mute, waiting;
  std::string call = "call";
  for (int rank = 0; rank < attendance.ranks; ++rank) {
    const auto& report = one.reports[static_cast<size_t>(rank)];
    if (report && report->digest != 0) call = report->name;
    const bool called = report && report->begun > sequence;
    if (!attendance.is_present(rank)) continue;
    if (!report || report->round < one.round) {
      mute.push_back(rank);
    } else if (!called) {
      never.push_back(rank);
    } else if (report->ended <= sequence) {
      waiting.push_back(rank);
    }
  }
  call += ' ' + callNumberText(sequence);
  CallVerdict verdict{Code::kTimeout, -1, ""};
  const auto blame = [&](const std::vector<int>& ranks, const std::string& what) {
    if (ranks.empty()) return;
    // If most ranks are silent or late, the machine is busy or the network is broken: none of them is the exception.
    if (verdict.reason.empty() && 2 * std::ssize(ranks) <= attendance.present) verdict.rank = ranks[0];
    verdict.reason += (verdict.reason.empty() ? "" : "; ") + ranksText(ranks) + what;
  };
  // Silent ranks are blamed first: the other ranks may not have called because they wait for the silent ones.
  blame(mute, formatString(" did not answer about %s: stopped, or cut off from the network", call.c_str()));
  blame(never, formatString(" never called %s", call.c_str()));
  if (verdict.reason.empty()) {
    const std::vector<int> ends = endOfWaiting(one.reports);
    verdict.rank = ends.size() == 1 ? ends[0] : -1;
    verdict.reason =
        formatString("all ranks called %s, and it did not complete within %u ms (%s)%s%s: %s", call.c_str(),
                     one.overdue_ms, limit_.c_str(), ends.empty() ? "" : "; all wait in the end for ",
                     ends.empty() ? "" : ranksText(ends).c_str(), obstaclesText(one.reports).c_str());
  } else if (!waiting.empty()) {
    verdict.reason += formatString("; %s %s waited for %u ms (%s)", ranksText(waiting).c_str(),
                                   waiting.size() == 1 ? "has" : "have", one.overdue_ms, limit_.c_str());
  }
  return verdict;
}

}  // namespace horing
