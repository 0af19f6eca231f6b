#include "control/wait_graph.h"

#include <algorithm>

#include "control/inquiry_times.h"

namespace horing {

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

using Doing = RankState::Doing;

bool waitsLong(const RankState& state) {
  return state.doing != Doing::kNothing && state.idle_ms >= WaitGraph::kStuckMs;
}

bool contains(const std::vector<int32_t>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

void WaitGraph::tell(int rank, int ranks, RankState state, int64_t now_ns) {
  known_.resize(static_cast<size_t>(ranks));
  std::optional<Known>& known = known_[static_cast<size_t>(rank)];
  const bool was_asked = state.round != 0;
  if (was_asked && state.round == round_) ++answered_;
  // A report that was not asked for does not answer the latest inquiry; the rank may have answered an earlier one.
  if (!was_asked) state.round = known ? known->state.round : 0;
  const bool first_overdue = state.overdue_ms > 0 && overdue_rank_ < 0;
  if (first_overdue) {
    overdue_rank_ = rank;
    decide_ns_ = now_ns + kAnswersNs;
  }
  // An answer does not clear the deadline that has passed.
  if (known) state.overdue_ms = std::max(state.overdue_ms, known->state.overdue_ms);
  const int64_t stuck_ns = !waitsLong(state) ? INT64_MAX : known ? std::min(known->stuck_ns, now_ns) : now_ns;
  known = {std::move(state), now_ns, stuck_ns};
  if (was_asked || (!first_overdue && round_ > 0 && now_ns - asked_ns_ < kAskAgainNs)) return;
  asked_ns_ = now_ns;
  answered_ = 0;
  inquiry_ = ++round_;
}

const RankState* WaitGraph::state(int rank) const {
  if (rank < 0 || static_cast<size_t>(rank) >= known_.size()) return nullptr;
  const std::optional<Known>& known = known_[static_cast<size_t>(rank)];
  return known ? &known->state : nullptr;
}

bool WaitGraph::isStuck(int rank) const {
  const RankState* const told = state(rank);
  if (!told || told->round != round_ || !waitsLong(*told)) return false;
  const Known& known = *known_[static_cast<size_t>(rank)];
  return known.told_ns - known.stuck_ns >= kSureMs * kNsPerMs;
}

// Edges that are about to be served are left out: a receive that meets a send of the same moment.
std::vector<WaitGraph::Edge> WaitGraph::edgesOf(int rank) const {
  std::vector<Edge> edges;
  const RankState* const own = state(rank);
  if (!own) return edges;
  // A list of the maximal length may have been cut.
  const auto mayHave = [&](const std::vector<int32_t>& ranks) {
    return ranks.size() >= kMaxWaitedFor || contains(ranks, rank);
  };
  const auto add = [&](const std::vector<int32_t>& ranks, bool takes) {
    for (const int32_t other : ranks) {
      const RankState* const theirs = state(other);
      const bool is_served = own->doing == Doing::kExchange && theirs && theirs->doing == Doing::kExchange &&
                             mayHave(takes ? theirs->gives_to : theirs->takes_from);
      if (!is_served && other != rank) edges.push_back({rank, other, takes});
    }
  };
  add(own->takes_from, true);
  add(own->gives_to, false);
  return edges;
}

// Breadth first, along ranks without progress. Empty: there is no circle.
std::vector<WaitGraph::Edge> WaitGraph::circleThrough(int rank) const {
  std::vector<std::optional<Edge>> reached_by(known_.size());
  std::vector<int> queue = {rank};
  for (size_t next = 0; next < queue.size() && !reached_by[static_cast<size_t>(rank)]; ++next)
    for (const Edge& edge : edgesOf(queue[next])) {
      if (!isStuck(edge.to) || reached_by[static_cast<size_t>(edge.to)]) continue;
      reached_by[static_cast<size_t>(edge.to)] = edge;
      queue.push_back(edge.to);
    }
  std::vector<Edge> edges;
  for (int at = rank; reached_by[static_cast<size_t>(rank)] && (edges.empty() || at != rank);
       at = edges.back().from)
    edges.push_back(*reached_by[static_cast<size_t>(at)]);
  std::reverse(edges.begin(), edges.end());
  return edges;
}

std::optional<CallVerdict> WaitGraph::judge(const Attendance& attendance, int64_t now_ns) const {
  const bool all_answered = answered_ >= attendance.present;
  // Not after each answer: scanning all ranks for each would delay the rendezvous of a large job.
  for (int rank = 0; all_answered && rank < static_cast<int>(known_.size()); ++rank) {
    if (!isStuck(rank) || state(rank)->doing != Doing::kExchange) continue;
    for (const Edge& edge : edgesOf(rank))
      if (edge.to >= 0 && edge.to < attendance.ranks && !attendance.is_present(edge.to))
        return CallVerdict{Code::kInvalidUsage, edge.to,
                           formatString("%s, which has left", text(edge).c_str())};
    if (const std::vector<Edge> edges = circleThrough(rank); !edges.empty()) return circle(edges);
  }
  if (overdue_rank_ >= 0 && (all_answered || now_ns >= decide_ns_)) return overdue(attendance);
  return std::nullopt;
}

std::string WaitGraph::text(const Edge& edge) const {
  const RankState& from = *state(edge.from);
  if (from.doing == Doing::kCollective)
    return formatString("rank %d is in %s #%llu, which waits for rank %d", edge.from, from.name.c_str(),
                        static_cast<unsigned long long>(from.sequence), edge.to);
  return edge.takes ? formatString("rank %d waits for a message from rank %d", edge.from, edge.to)
                    : formatString("rank %d waits for rank %d to take a message", edge.from, edge.to);
}

CallVerdict WaitGraph::circle(const std::vector<Edge>& edges) const {
  constexpr size_t kShown = 16;
  CallVerdict verdict;
  verdict.rank = edges[0].from;
  verdict.reason = "ranks wait for each other in a circle: ";
  for (size_t i = 0; i < edges.size() && i < kShown; ++i) verdict.reason += (i ? "; " : "") + text(edges[i]);
  if (edges.size() > kShown) verdict.reason += "; ...";
  verdict.reason +=
      ". Each send needs a receive that its peer reaches, and each receive a send: put sends and receives "
      "that depend on each other into one group";
  return verdict;
}

// The path from the rank that has waited too long, along the ranks that each waits for.
CallVerdict WaitGraph::overdue(const Attendance& attendance) const {
  CallVerdict verdict{Code::kTimeout, overdue_rank_, ""};
  verdict.reason =
      formatString("rank %d has waited for %u ms (HORING_TIMEOUT_MS) in a group of sends and receives",
                   overdue_rank_, state(overdue_rank_)->overdue_ms);
  std::vector<int32_t> passed;
  for (int rank = overdue_rank_;;) {
    passed.push_back(rank);
    const std::vector<Edge> edges = edgesOf(rank);
    if (edges.empty()) break;
    verdict.reason += (passed.size() == 1 ? ": " : "; ") + text(edges[0]);
    rank = verdict.rank = edges[0].to;
    const RankState* const known = state(rank);
    const bool is_rank = rank >= 0 && rank < attendance.ranks;
    const char* end = nullptr;
    if (is_rank && !attendance.is_present(rank)) {
      end = ", which has left";
    } else if (!known || known->round != round_) {
      end = ", which does not answer: stopped, or cut off from the network";
    } else if (known->doing == Doing::kNothing) {
      end = ", which is in no call";
    } else if (contains(passed, rank)) {
      end = ", which closes a circle";
    }
    if (!end) continue;
    verdict.reason += end;
    return verdict;
  }
  verdict.reason +=
      passed.size() == 1 ? ": its messages are under way and do not arrive" : ", which still makes progress";
  return verdict;
}

}  // namespace horing
