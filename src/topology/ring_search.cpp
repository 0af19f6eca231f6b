#include "topology/ring_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

namespace horing {

namespace {

// Members in one place hand over in memory, which is no link.
constexpr int64_t kSamePlaceMbytes = 200'000;

struct Hop {
  int64_t mbytes_per_s =
      0;  // of a way of unknown width: the one assumed inside a NUMA node, or it would lose to the far
  int32_t edges = 0;
};

// The wider its narrowest hop, then its hops in all, then the fewer edges: higher is better.
using Score = std::tuple<int64_t, int64_t, int64_t>;

class Search {
 public:
  Search(const MachineGraph& graph, std::span<const int32_t> members)
      : size_(members.size()), hops_(size_ * size_) {
    for (size_t a = 0; a < size_; ++a)
      for (size_t b = 0; b < size_; ++b) {
        const GraphPath path = graph.path(members[a], members[b]);
        const double known = path.gbytes_per_s > 0 ? path.gbytes_per_s : kAssumedNumaGBytesPerS;
        const int64_t mbytes = std::llround(known * 1000);
        hops_[a * size_ + b] = {path.kind == PathKind::kSame ? kSamePlaceMbytes : mbytes, path.hops};
      }
  }

  const Hop& hop(int32_t a, int32_t b) const {
    return hops_[static_cast<size_t>(a) * size_ + static_cast<size_t>(b)];
  }

  Score score(const std::vector<int32_t>& order) const {
    int64_t narrowest = INT64_MAX;
    int64_t sum = 0;
    int64_t edges = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Hop& next = hop(order[i], order[(i + 1) % order.size()]);
      narrowest = std::min(narrowest, next.mbytes_per_s);
      sum += next.mbytes_per_s;
      edges += next.edges;
    }
    return {narrowest, sum, -edges};
  }

  // A ring of hops of at least this width, from `start`'s first member on; empty: none found in the steps allowed.
  std::vector<int32_t> ringOfWidth(const std::vector<int32_t>& start, int64_t width);
  std::vector<int64_t> widthsAbove(int64_t width) const;
  void improveBySwaps(std::vector<int32_t>& order);
  int64_t steps() const { return steps_; }

 private:
  size_t size_;
  std::vector<Hop> hops_;
  int64_t steps_ = 0;
};

std::vector<int64_t> Search::widthsAbove(int64_t width) const {
  std::set<int64_t, std::greater<>> widths;
  for (size_t a = 0; a < size_; ++a)
    for (size_t b = 0; b < a; ++b)
      if (hops_[a * size_ + b].mbytes_per_s > width) widths.insert(hops_[a * size_ + b].mbytes_per_s);
  std::vector<int64_t> all(widths.begin(), widths.end());
  if (all.size() > kMaxWidths) all.erase(all.begin(), all.end() - kMaxWidths);
  return all;
}

std::vector<int32_t> Search::ringOfWidth(const std::vector<int32_t>& start, int64_t width) {
  std::vector<int32_t> ring = {start[0]};
  std::vector<bool> used(size_, false);
  used[static_cast<size_t>(start[0])] = true;
  int left = kMaxBacktrackingSteps;
  const std::function<bool()> extend = [&]() -> bool {
    if (ring.size() == size_) return hop(ring.back(), ring[0]).mbytes_per_s >= width;
    std::vector<int32_t> next;
    for (const int32_t member : start)
      if (!used[static_cast<size_t>(member)] && hop(ring.back(), member).mbytes_per_s >= width)
        next.push_back(member);
    std::stable_sort(next.begin(), next.end(), [&](int32_t a, int32_t b) {
      return hop(ring.back(), a).mbytes_per_s > hop(ring.back(), b).mbytes_per_s;
    });
    for (const int32_t member : next) {
      if (--left < 0) return false;
      ++steps_;
      ring.push_back(member);
      used[static_cast<size_t>(member)] = true;
      if (extend()) return true;
      used[static_cast<size_t>(member)] = false;
      ring.pop_back();
    }
    return false;
  };
  return extend() ? ring : std::vector<int32_t>();
}

// Turns a stretch of the ring round wherever that is better, until nothing is.
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

// Begins with the member that is first in the tree and goes on with the earlier of its two neighbours.
void turnToBegin(std::vector<int32_t>& order, const std::vector<int32_t>& tree_order) {
  std::rotate(order.begin(), std::find(order.begin(), order.end(), tree_order[0]), order.end());
  const auto place = [&](int32_t member) { return std::find(tree_order.begin(), tree_order.end(), member); };
  if (order.size() > 2 && place(order.back()) < place(order[1])) std::reverse(order.begin() + 1, order.end());
}

void measure(const MachineGraph& graph, std::span<const int32_t> members, Ring& ring) {
  for (size_t i = 0; ring.order.size() > 1 && i < ring.order.size(); ++i) {
    const auto from = static_cast<size_t>(ring.order[i]);
    const auto to = static_cast<size_t>(ring.order[(i + 1) % ring.order.size()]);
    const GraphPath path = graph.path(members[from], members[to]);
    ring.worst = std::max(ring.worst, path.kind);
    if (path.gbytes_per_s > 0 && (ring.gbytes_per_s == 0 || path.gbytes_per_s < ring.gbytes_per_s))
      ring.gbytes_per_s = path.gbytes_per_s;
  }
}

}  // namespace

Ring searchRing(const MachineGraph& graph, std::span<const int32_t> members) {
  Ring ring;
  const std::vector<int32_t> tree_order = treeOrder(graph, members);
  ring.order = tree_order;
  if (members.size() > 3 && members.size() <= kMaxSearchedMembers) {
    Search search(graph, members);
    for (const int64_t width : search.widthsAbove(std::get<0>(search.score(ring.order)))) {
      std::vector<int32_t> found = search.ringOfWidth(tree_order, width);
      if (found.empty()) continue;
      ring.order = std::move(found);
      break;
    }
    search.improveBySwaps(ring.order);
    ring.steps = search.steps();
    turnToBegin(ring.order, tree_order);
  }
  measure(graph, members, ring);
  return ring;
}

}  // namespace horing
