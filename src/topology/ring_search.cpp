#include "topology/ring_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

namespace horing {

namespace {

// Members in one place communicate through memory, without a link.
constexpr int64_t kSamePlaceMbytes = 200'000;

// Members in one place need no link.
bool isThroughHost(PathKind kind) {
  return kind != PathKind::kSame && kind != PathKind::kDirect;
}

struct Hop {
  // An edge of unknown bandwidth gets the value assumed inside a NUMA node, or it would lose to distant edges.
  int64_t mbytes_per_s = 0;
  int64_t direct_mbytes_per_s = 0;  // of the direct link, which may be slower
  int32_t edges = 0;

  // In a ring of this width.
  bool isThroughHost(int64_t width) const { return direct_mbytes_per_s < width; }
};

// The narrowest hop, then fewer hops through the host, then the total width of hops, then fewer edges: higher is better.
using Score = std::tuple<int64_t, int64_t, int64_t, int64_t>;

class Search {
 public:
  Search(const MachineGraph& graph, std::span<const int32_t> members)
      : size_(members.size()), hops_(size_ * size_) {
    for (size_t a = 0; a < size_; ++a)
      for (size_t b = 0; b < size_; ++b) {
        const GraphPath path = graph.path(members[a], members[b]);
        const double known = path.gbytes_per_s > 0 ? path.gbytes_per_s : kAssumedNumaGBytesPerS;
        const int64_t mbytes = std::llround(known * 1000);
        const GraphPath direct = graph.path(members[a], members[b], 0);
        Hop& way = hops_[a * size_ + b];
        way = {mbytes, 0, path.hops};
        if (path.kind == PathKind::kSame) way.mbytes_per_s = way.direct_mbytes_per_s = kSamePlaceMbytes;
        if (direct.kind == PathKind::kDirect)
          way.direct_mbytes_per_s = std::llround(direct.gbytes_per_s * 1000);
      }
  }

  const Hop& hop(int32_t a, int32_t b) const {
    return hops_[static_cast<size_t>(a) * size_ + static_cast<size_t>(b)];
  }

  Score score(const std::vector<int32_t>& order) const {
    int64_t narrowest = INT64_MAX;
    int64_t host_hops = 0, sum = 0, edges = 0;
    const auto next = [&](size_t i) -> const Hop& {
      return hop(order[i], order[i + 1 < order.size() ? i + 1 : 0]);
    };
    for (size_t i = 0; i < order.size(); ++i) {
      narrowest = std::min(narrowest, next(i).mbytes_per_s);
      sum += next(i).mbytes_per_s;
      edges += next(i).edges;
    }
    for (size_t i = 0; i < order.size(); ++i) host_hops += next(i).isThroughHost(narrowest) ? 1 : 0;
    return {narrowest, -host_hops, sum, -edges};
  }

  void improveByCycles(Ring& ring);
  void improveBySwaps(std::vector<int32_t>& order);
  int64_t steps() const { return steps_; }

 private:
  enum class Hops : uint8_t { kDirect, kAll };
  std::vector<int64_t> widthsFrom(int64_t width) const;
  // A ring of hops of at least this width. Members are tried in the order of `start`, and numbered by it.
  CycleSearch ringOfWidth(const std::vector<int32_t>& start, int64_t width, Hops hops, int64_t most_steps);

  size_t size_;
  std::vector<Hop> hops_;
  int64_t steps_ = 0;
};

std::vector<int64_t> Search::widthsFrom(int64_t width) const {
  std::set<int64_t, std::greater<>> widths;
  for (size_t a = 0; a < size_; ++a)
    for (size_t b = 0; b < a; ++b)
      if (hops_[a * size_ + b].mbytes_per_s >= width) widths.insert(hops_[a * size_ + b].mbytes_per_s);
  std::vector<int64_t> all(widths.begin(), widths.end());
  if (all.size() > kMaxWidths) all.erase(all.begin(), all.end() - kMaxWidths);
  return all;
}

CycleSearch Search::ringOfWidth(const std::vector<int32_t>& start, int64_t width, Hops hops,
                                int64_t most_steps) {
  const auto at = [&](size_t a, size_t b) -> const Hop& { return hop(start[a], start[b]); };
  std::vector<VertexSet> edges(size_);
  for (size_t a = 0; a < size_; ++a)
    for (size_t b = 0; b < size_; ++b)
      if (a != b && at(a, b).mbytes_per_s >= width && (hops == Hops::kAll || !at(a, b).isThroughHost(width)))
        edges[a].set(b);
  const auto worth = [&](size_t a, size_t b) { return at(a, b).mbytes_per_s; };
  CycleSearch search = findCycle(edges, worth, std::min(kMaxCycleSteps, most_steps));
  steps_ += search.steps;
  return search;
}

void Search::improveByCycles(Ring& ring) {
  const std::vector<int32_t> start = ring.order;
  const Score known = score(start);
  const std::vector<int64_t> widths = widthsFrom(std::get<0>(known));
  auto searches_left = static_cast<int64_t>(2 * widths.size());
  for (const int64_t width : widths)
    for (const Hops hops : {Hops::kDirect, Hops::kAll}) {
      // Hard searches for wide rings must leave steps for narrower ones.
      const CycleSearch search =
          ringOfWidth(start, width, hops, (kMaxAllCycleSteps - steps_) / searches_left--);
      std::vector<int32_t> found;
      for (const int32_t place : search.cycle) found.push_back(start[static_cast<size_t>(place)]);
      if (!found.empty() && score(found) > known) {
        ring.order = std::move(found);
        return;
      }
      if (hops == Hops::kDirect || width == std::get<0>(known)) continue;
      ring.wider_gbytes_per_s = static_cast<double>(width) / 1000;
      ring.why_no_wider = search.outcome;
      ring.stuck = search.vertex < 0 ? -1 : start[static_cast<size_t>(search.vertex)];
    }
}

// Reverses segments of the ring as long as that improves it (2-opt).
void Search::improveBySwaps(std::vector<int32_t>& order) {
  Score best = score(order);
  bool better = true;
  for (int swaps = 0; better && swaps < kMaxSwaps;) {
    better = false;
    for (size_t first = 1; first + 1 < order.size(); ++first)
      for (size_t last = first + 1; last < order.size() && ++swaps < kMaxSwaps; ++last) {
        ++steps_;
        const auto stretch = [&] {
          std::reverse(order.begin() + static_cast<long>(first), order.begin() + static_cast<long>(last) + 1);
        };
        stretch();
        if (const Score tried = score(order); tried > best) {
          best = tried;
          better = true;
        } else {
          stretch();
        }
      }
  }
}

std::vector<int32_t> treeOrder(const MachineGraph& graph, std::span<const int32_t> members) {
  std::vector<int32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return graph.treePosition(members[static_cast<size_t>(a)]) <
           graph.treePosition(members[static_cast<size_t>(b)]);
  });
  return order;
}

// Rotates the ring to begin with the first member in tree order, in the direction of its earlier neighbour.
void turnToBegin(std::vector<int32_t>& order, const std::vector<int32_t>& tree_order) {
  std::rotate(order.begin(), std::find(order.begin(), order.end(), tree_order[0]), order.end());
  const auto place = [&](int32_t member) { return std::find(tree_order.begin(), tree_order.end(), member); };
  if (order.size() > 2 && place(order.back()) < place(order[1])) std::reverse(order.begin() + 1, order.end());
}

// Of the ring in this order.
struct Measures {
  double gbytes_per_s = 0;
  PathKind worst = PathKind::kSame;
  int32_t host_hops = 0;
};

Measures measure(const MachineGraph& graph, std::span<const int32_t> members,
                 const std::vector<int32_t>& order) {
  Measures ring;
  const auto path_of = [&](size_t i, double enough) {
    const auto from = static_cast<size_t>(order[i]), to = static_cast<size_t>(order[(i + 1) % order.size()]);
    return graph.path(members[from], members[to], enough);
  };
  const size_t hops = order.size() > 1 ? order.size() : 0;
  for (size_t i = 0; i < hops; ++i)
    if (const double width = path_of(i, kMaxGBytesPerS).gbytes_per_s;
        width > 0 && (ring.gbytes_per_s == 0 || width < ring.gbytes_per_s))
      ring.gbytes_per_s = width;
  for (size_t i = 0; i < hops; ++i) {
    const PathKind kind = path_of(i, ring.gbytes_per_s).kind;
    ring.worst = std::max(ring.worst, kind);
    ring.host_hops += isThroughHost(kind) ? 1 : 0;
  }
  return ring;
}

}  // namespace

Ring searchRing(const MachineGraph& graph, std::span<const int32_t> members) {
  Ring ring;
  const std::vector<int32_t> tree_order = treeOrder(graph, members);
  ring.order = tree_order;
  if (members.size() > 3 && members.size() <= kMaxSearchedMembers) {
    Search search(graph, members);
    search.improveByCycles(ring);
    search.improveBySwaps(ring.order);
    ring.steps = search.steps();
    turnToBegin(ring.order, tree_order);
  }
  const Measures tree = measure(graph, members, tree_order), found = measure(graph, members, ring.order);
  ring.tree_gbytes_per_s = tree.gbytes_per_s, ring.tree_host_hops = tree.host_hops;
  ring.gbytes_per_s = found.gbytes_per_s, ring.worst = found.worst, ring.host_hops = found.host_hops;
  // Swaps may find what the search missed.
  if (ring.gbytes_per_s >= ring.wider_gbytes_per_s) ring.wider_gbytes_per_s = 0;
  return ring;
}

}  // namespace horing
