#pragma once
// Finds the ranks that make others wait, from the paces of all ranks: ranks that come late to their calls, and slow paths between two
// ranks. No I/O, no clock; the rendezvous feeds it (control/rendezvous.h).
//
// It needs no common clock. A rank that comes late spends less time in its calls than the others, by as much as they wait for it. On a slow
// path both ends wait: the receiver for data, and the sender for the receiver to take data. On other paths at most one end waits.
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "control/pace.h"

namespace horing {

struct PaceFinding {
  int32_t rank = -1;
  int32_t to = -1;  // -1: `rank` comes late; else the path from it to that rank is slow
  // Of the time: the part that the others lose by waiting for `rank`, or in which both ends of the path wait.
  double share = 0;
  int64_t per_call_us = 0;  // how late
  bool isSame(const PaceFinding& other) const { return rank == other.rank && to == other.to; }
};

class PaceJudge {
 public:
  // A window ends after kWindowNs if every rank has made kFewestCalls calls, else after kLongestWindowNs; then only paths are judged.
  static constexpr int64_t kWindowNs = 2'000'000'000;
  static constexpr int64_t kLongestWindowNs = 4'000'000'000;
  static constexpr uint64_t kFewestCalls = 4;
  // A finding lasts once it was made in this many consecutive windows.
  static constexpr int kLasting = 3;
  static constexpr size_t kMostFindings = 8;

  struct Ranks {
    int ranks = 0;
    std::function<bool(int, int)> share_node;
  };
  // Takes the pace of rank 0 <= rank < ranks, received at now_ns.
  void tell(int rank, const Ranks& ranks, const Pace& pace, int64_t now_ns);
  // The findings that have begun to last; the lasting findings that have ended. Each call empties its list.
  std::vector<PaceFinding> takeBegun() { return std::exchange(begun_, {}); }
  std::vector<PaceFinding> takeEnded() { return std::exchange(ended_, {}); }
  // The findings that last now.
  std::vector<PaceFinding> lasting() const;

 private:
  // The sum of a rank's paces in the window.
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
  size_t with_calls_ = 0;  // ranks with kFewestCalls calls or more
  int64_t begun_ns_ = 0;   // of the window; 0: none
  std::vector<Known> known_;
  std::vector<PaceFinding> begun_, ended_;
};

}  // namespace horing
