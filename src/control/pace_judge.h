#pragma once
// Who makes the others wait: judges from the paces of all ranks who comes late to their calls, and which path between two ranks is slow.
// No I/O, no clock; the rendezvous feeds it (control/rendezvous.h).
//
// Needs no common clock. A rank that comes late is inside its calls for less time than the others, by as much as they wait for it. On a
// slow path both ends wait for each other, the sender for what it sent to be taken and the receiver for data; ranks elsewhere wait at one end
// only.
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "control/pace.h"

namespace horing {

struct PaceFinding {
  int32_t rank = -1;
  int32_t to = -1;          // -1: `rank` comes late; else the path from it to that rank is slow
  double share = 0;         // of the time: lost to it, or in which both ends wait
  int64_t per_call_us = 0;  // how late
  bool isSame(const PaceFinding& other) const { return rank == other.rank && to == other.to; }
};

class PaceJudge {
 public:
  // A window is judged when it has lasted so long and has so many calls of every rank; without these only paths are judged, later.
  static constexpr int64_t kWindowNs = 2'000'000'000;
  static constexpr int64_t kLongestWindowNs = 4'000'000'000;
  static constexpr uint64_t kFewestCalls = 4;
  // What is found in so many windows, one after the other, lasts.
  static constexpr int kLasting = 3;
  static constexpr size_t kMostFindings = 8;

  struct Ranks {
    int ranks = 0;
    std::function<bool(int, int)> share_node;
  };
  // What rank 0 <= rank < ranks tells at now_ns.
  void tell(int rank, const Ranks& ranks, const Pace& pace, int64_t now_ns);
  // What begins to last, and what has ended that lasted. Each empties its list.
  std::vector<PaceFinding> takeBegun() { return std::exchange(begun_, {}); }
  std::vector<PaceFinding> takeEnded() { return std::exchange(ended_, {}); }
  // What lasts now.
  std::vector<PaceFinding> lasting() const;

 private:
  // What a rank has told in the window.
  struct Sum {
    uint64_t interval_us = 0;
    uint64_t calls = 0;
    uint64_t inside_us = 0;
    std::map<std::pair<int32_t, bool>, uint64_t> waits_us;  // by peer, and whether for room
    double perCallUs() const { return static_cast<double>(inside_us) / static_cast<double>(calls); }
  };
  struct Known {
    PaceFinding finding;
    int windows = 0;
  };

  void judge(const Ranks& ranks);
  std::vector<PaceFinding> lateRanks() const;
  std::vector<PaceFinding> slowPaths(const Ranks& ranks) const;
  double shareOf(int32_t rank, int32_t peer, bool for_room) const;
  void remember(std::vector<PaceFinding> found);

  std::vector<Sum> sums_;
  size_t with_calls_ = 0;  // of these, as many have enough
  int64_t begun_ns_ = 0;   // of the window; 0: none
  std::vector<Known> known_;
  std::vector<PaceFinding> begun_, ended_;
};

}  // namespace horing
