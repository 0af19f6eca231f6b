#include "topology/cycle_search.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

namespace horing {

namespace {

constexpr int64_t kFirstTrySteps = 512;

// Which edges are still open, and the paths that the taken ones form.
class Decisions {
 public:
  explicit Decisions(const std::vector<VertexSet>& edges)
      : open_(edges), taken_(edges.size()), other_end_(edges.size()) {
    for (size_t vertex = 0; vertex < edges.size(); ++vertex) {
      other_end_[vertex] = vertex;
      unsettled_.set(vertex);
    }
  }

  // Both say whether a cycle is still possible, as far as it follows.
  bool take(size_t a, size_t b) {
    join(a, b);
    return settle();
  }
  bool drop(size_t a, size_t b) {
    remove(a, b);
    return settle();
  }
  bool settle();

  bool complete() const { return edges_taken_ == open_.size(); }
  size_t degree(size_t vertex) const { return open_[vertex].count(); }
  bool isEnd(size_t vertex) const { return taken_[vertex].count() == 1; }
  VertexSet undecided(size_t vertex) const { return open_[vertex] & ~taken_[vertex]; }
  std::vector<int32_t> cycle() const;
  bool isConnectedWithout(std::optional<size_t> left_out) const;

 private:
  void join(size_t a, size_t b);
  void remove(size_t a, size_t b) {
    open_[a].reset(b);
    open_[b].reset(a);
    unsettled_.set(a);
    unsettled_.set(b);
  }

  std::vector<VertexSet> open_;  // edges that are taken or may be
  std::vector<VertexSet> taken_;
  std::vector<size_t> other_end_;  // of an end of a path
  VertexSet unsettled_;            // vertices whose edges changed
  size_t edges_taken_ = 0;
};

template <typename Visit>
void forEach(VertexSet set, Visit visit) {
  for (size_t vertex = set._Find_first(); vertex < set.size(); vertex = set._Find_next(vertex)) visit(vertex);
}

void Decisions::join(size_t a, size_t b) {
  taken_[a].set(b);
  taken_[b].set(a);
  ++edges_taken_;
  unsettled_.set(a);
  unsettled_.set(b);
  const size_t from = other_end_[a], to = other_end_[b];
  other_end_[from] = to;
  other_end_[to] = from;
  // Only the last edge may close the cycle.
  if (edges_taken_ + 1 < open_.size() && open_[from].test(to) && !taken_[from].test(to)) remove(from, to);
}

bool Decisions::settle() {
  while (unsettled_.any()) {
    const size_t vertex = unsettled_._Find_first();
    unsettled_.reset(vertex);
    if (open_[vertex].count() < 2 || taken_[vertex].count() > 2) return false;
    if (taken_[vertex].count() == 2) {
      forEach(undecided(vertex), [&](size_t other) { remove(vertex, other); });
      unsettled_.reset(vertex);
    } else if (open_[vertex].count() == 2) {
      const VertexSet both = undecided(vertex);
      for (size_t other = both._Find_first(); other < both.size(); other = both._Find_next(other)) {
        if (!undecided(vertex).test(other)) return false;  // it would have closed a cycle too early
        join(vertex, other);
      }
    }
  }
  return isConnectedWithout({});
}

bool Decisions::isConnectedWithout(std::optional<size_t> left_out) const {
  VertexSet unseen;
  for (size_t vertex = 0; vertex < open_.size(); ++vertex) unseen.set(vertex);
  if (left_out) unseen.reset(*left_out);
  VertexSet border;
  border.set(unseen._Find_first());
  while (border.any()) {
    unseen &= ~border;
    VertexSet next;
    forEach(border, [&](size_t vertex) { next |= open_[vertex]; });
    border = next & unseen;
  }
  return unseen.none();
}

std::vector<int32_t> Decisions::cycle() const {
  std::vector<int32_t> order;
  VertexSet unseen = VertexSet().set();
  for (size_t vertex = 0; vertex < open_.size(); vertex = (taken_[vertex] & unseen)._Find_first()) {
    order.push_back(static_cast<int32_t>(vertex));
    unseen.reset(vertex);
  }
  return order;
}

class Tries {
 public:
  Tries(const std::function<int64_t(size_t, size_t)>& worth, size_t vertices)
      : worth_(worth), vertices_(vertices) {}

  using Outcome = CycleSearch::Outcome;  // kFound, kNone or kOutOfSteps
  // `shuffled`: which edge is tried first is drawn, among those whose other vertex has the fewest.
  Outcome search(Decisions decisions, int64_t steps, bool shuffled);
  std::vector<int32_t> takeCycle() { return std::move(cycle_); }
  int64_t steps() const { return steps_; }

 private:
  Outcome extend(Decisions& decisions);
  size_t chooseVertex(const Decisions& decisions) const;
  size_t chooseEdge(const Decisions& decisions, size_t vertex);

  const std::function<int64_t(size_t, size_t)>& worth_;
  size_t vertices_;
  std::minstd_rand random_;  // the same numbers everywhere
  bool shuffled_ = false;
  int64_t steps_ = 0, last_step_ = 0;
  std::vector<int32_t> cycle_;
};

Tries::Outcome Tries::search(Decisions decisions, int64_t steps, bool shuffled) {
  shuffled_ = shuffled;
  last_step_ = steps_ + steps;
  return extend(decisions);
}

// The end of a path, if there is one, with the fewest ways on.
size_t Tries::chooseVertex(const Decisions& decisions) const {
  size_t best = 0, best_cost = SIZE_MAX;
  for (size_t vertex = 0; vertex < vertices_; ++vertex) {
    if (decisions.undecided(vertex).none()) continue;
    const size_t cost = decisions.degree(vertex) + (decisions.isEnd(vertex) ? 0 : kMaxCycleVertices);
    if (cost < best_cost) best = vertex, best_cost = cost;
  }
  return best;
}

size_t Tries::chooseEdge(const Decisions& decisions, size_t vertex) {
  size_t best = 0;
  std::pair<int64_t, int64_t> best_cost = {INT64_MAX, 0};
  forEach(decisions.undecided(vertex), [&](size_t other) {
    const auto degree = static_cast<int64_t>(decisions.degree(other));
    const std::pair<int64_t, int64_t> cost =
        shuffled_ ? std::pair<int64_t, int64_t>(degree, random_() % 1024)
                  : std::pair<int64_t, int64_t>(-worth_(vertex, other), degree);
    if (cost < best_cost) best = other, best_cost = cost;
  });
  return best;
}

Tries::Outcome Tries::extend(Decisions& decisions) {
  if (decisions.complete()) {
    cycle_ = decisions.cycle();
    return Outcome::kFound;
  }
  const size_t vertex = chooseVertex(decisions);
  for (;;) {
    if (++steps_ > last_step_) return Outcome::kOutOfSteps;
    const size_t other = chooseEdge(decisions, vertex);
    Decisions with = decisions;
    if (with.take(vertex, other)) {
      const Outcome outcome = extend(with);
      if (outcome != Outcome::kNone) return outcome;
    }
    if (!decisions.drop(vertex, other)) return Outcome::kNone;
    if (decisions.undecided(vertex).none()) return extend(decisions);
  }
}

// The outcome, if it follows without any decision.
CycleSearch glance(const std::vector<VertexSet>& edges) {
  using Outcome = CycleSearch::Outcome;
  const Decisions none(edges);
  for (size_t vertex = 0; vertex < edges.size(); ++vertex)
    if (none.degree(vertex) < 2) return {Outcome::kFewEdges, static_cast<int32_t>(vertex), {}, 0};
  if (!none.isConnectedWithout({})) return {Outcome::kApart, -1, {}, 0};
  for (size_t vertex = 0; vertex < edges.size(); ++vertex)
    if (!none.isConnectedWithout(vertex)) return {Outcome::kCutVertex, static_cast<int32_t>(vertex), {}, 0};
  return {};
}

}  // namespace

CycleSearch findCycle(const std::vector<VertexSet>& edges,
                      const std::function<int64_t(size_t, size_t)>& worth, int64_t most_steps) {
  CycleSearch found = glance(edges);
  if (found.outcome != CycleSearch::Outcome::kOutOfSteps) return found;
  Decisions decisions(edges);
  if (!decisions.settle()) return {CycleSearch::Outcome::kNone, -1, {}, 0};
  Tries tries(worth, edges.size());
  for (int64_t patience = kFirstTrySteps;
       found.outcome == CycleSearch::Outcome::kOutOfSteps && tries.steps() < most_steps; patience *= 2)
    found.outcome =
        tries.search(decisions, std::min(patience, most_steps - tries.steps()), patience > kFirstTrySteps);
  found.steps = tries.steps();
  found.cycle = tries.takeCycle();
  return found;
}

}  // namespace horing
