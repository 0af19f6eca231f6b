#include "topology/rails.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace horing {

namespace {

constexpr int kMaxTries = 1 << 14;  // of changing one member over

// The line's speed, or that of its PCI link, or 0.
double speedOf(const GraphNode& nic) {
  return nic.port_gbytes_per_s > 0 ? nic.port_gbytes_per_s : nic.gbytes_per_s;
}

class Assignment {
 public:
  Assignment(const MachineGraph& graph, std::span<const int32_t> members)
      : graph_(graph),
        members_(members),
        nics_(graph.ofKind(NodeKind::kNic)),
        sharers_(nics_.size(), 0),
        chosen_(members.size(), 0) {
    for (const int32_t member : members)
      for (const int32_t nic : nics_) paths_.push_back(graph.path(member, nic));
  }

  std::vector<Rail> assign() {
    std::vector<Rail> rails(members_.size());
    if (nics_.empty() || members_.empty()) return rails;
    for (size_t member = 0; member < members_.size(); ++member) chooseNearest(member);
    changeOver();
    for (size_t member = 0; member < members_.size(); ++member)
      rails[member] = {{nics_[chosen_[member]]},
                       static_cast<double>(mbytes(member)) / 1000,
                       path(member, chosen_[member]).kind};
    for (size_t nic = 0; nic < nics_.size(); ++nic)
      if (sharers_[nic] == 0) giveAway(nic, rails);
    return rails;
  }

 private:
  const GraphPath& path(size_t member, size_t nic) const { return paths_[member * nics_.size() + nic]; }

  // What a member can send while all that chose its NIC do.
  int64_t mbytes(size_t member) const {
    const size_t nic = chosen_[member];
    const double share = speedOf(graph_.node(nics_[nic])) / std::max(sharers_[nic], 1);
    const double way = path(member, nic).gbytes_per_s;
    return std::llround((way == 0 ? share : std::min(way, share)) * 1000);
  }

  // The narrowest rail, all together, and how near they are.
  std::tuple<int64_t, int64_t, int64_t> score() const {
    int64_t narrowest = INT64_MAX;
    int64_t sum = 0;
    int64_t edges = 0;
    for (size_t member = 0; member < members_.size(); ++member) {
      narrowest = std::min(narrowest, mbytes(member));
      sum += mbytes(member);
      edges += path(member, chosen_[member]).hops;
    }
    return {narrowest, sum, -edges};
  }

  void chooseNearest(size_t member) {
    size_t best = 0;
    const auto distance = [&](size_t nic) { return std::tuple(path(member, nic).hops, sharers_[nic]); };
    for (size_t nic = 1; nic < nics_.size(); ++nic)
      if (distance(nic) < distance(best)) best = nic;
    chosen_[member] = best;
    ++sharers_[best];
  }

  void move(size_t member, size_t to) {
    --sharers_[chosen_[member]];
    chosen_[member] = to;
    ++sharers_[to];
  }

  void changeOver() {
    int tries = 0;
    for (bool better = true; better;) {
      better = false;
      for (size_t member = 0; member < members_.size(); ++member)
        for (size_t nic = 0; nic < nics_.size(); ++nic) {
          const size_t before = chosen_[member];
          const auto known = score();
          if (nic == before) continue;
          if (++tries > kMaxTries) return;
          move(member, nic);
          if (score() > known)
            better = true;
          else
            move(member, before);
        }
    }
  }

  // To the nearest member, of these to the one that has the fewest.
  void giveAway(size_t nic, std::vector<Rail>& rails) const {
    size_t nearest = 0;
    const auto distance = [&](size_t member) {
      return std::tuple(path(member, nic).hops, rails[member].nics.size());
    };
    for (size_t member = 1; member < members_.size(); ++member)
      if (distance(member) < distance(nearest)) nearest = member;
    Rail& rail = rails[nearest];
    const double speed = speedOf(graph_.node(nics_[nic]));
    const bool slow = speed * 2 < speedOf(graph_.node(rail.nics[0]));
    if (slow || path(nearest, nic).kind > rail.path) return;
    const double way = path(nearest, nic).gbytes_per_s;
    rail.nics.push_back(nics_[nic]);
    rail.gbytes_per_s += way == 0 ? speed : std::min(way, speed);
  }

  const MachineGraph& graph_;
  std::span<const int32_t> members_;
  std::vector<int32_t> nics_;
  std::vector<int> sharers_;    // of each NIC
  std::vector<size_t> chosen_;  // by each member, a place in nics_
  std::vector<GraphPath> paths_;
};

}  // namespace

std::vector<Rail> assignRails(const MachineGraph& graph, std::span<const int32_t> members) {
  return Assignment(graph, members).assign();
}

}  // namespace horing
