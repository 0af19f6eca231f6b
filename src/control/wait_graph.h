#pragma once
// Detects circular waits among sends and receives from the ranks' reports. No I/O, no clock; the rendezvous feeds it
// (control/rendezvous.h).
//
// Sends and receives have no number that all ranks share, so a wrong call cannot be detected; but a rank that waits for one that
// waits for it, perhaps through others, waits for ever. A rank that waits for a message reports it. The rendezvous then asks all
// ranks what they do; each control thread answers at once, even if its program is busy. There are three verdicts: a circle in which
// no rank has made progress for kStuckMs; a message due from a rank that has left; a deadline that has passed, with the end of the
// chain of waiting. A rank that is in no call, or has just made progress, is merely late. So is a rank that reports only once that
// it is stuck: after a job was stopped and resumed all its ranks seem to have waited, though their messages have arrived. While a
// rank reconnects it does not report that it is stuck: what it waits for may have been lost, and is sent again.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/call_ledger.h"
#include "control/rank_state.h"

namespace horing {

class WaitGraph {
 public:
  // Longer than data needs when a connection breaks and is made again.
  static constexpr uint32_t kStuckMs = 10'000;
  // A rank must report for this long, in answer after answer, that it is stuck before that counts.
  static constexpr uint32_t kSureMs = 1'000;

  // Takes the report of rank 0 <= rank < ranks, received at now_ns.
  void tell(int rank, int ranks, RankState state, int64_t now_ns);
  // The round of an inquiry to send to all ranks, once.
  std::optional<uint32_t> takeInquiry() { return std::exchange(inquiry_, std::nullopt); }
  std::optional<CallVerdict> judge(const Attendance& attendance, int64_t now_ns) const;
  // The time at which judge() may reach a verdict without another report; INT64_MAX: never.
  int64_t nextLookNs() const { return decide_ns_; }

 private:
  // One rank waits for another, which must send or receive.
  struct Edge {
    int from = 0;
    int to = 0;
    bool takes = true;
  };
  // Everything known about a rank.
  struct Known {
    RankState state;               // the latest report
    int64_t told_ns = 0;           // when that arrived
    int64_t stuck_ns = INT64_MAX;  // since when all its reports say that it is stuck
  };
  const RankState* state(int rank) const;
  bool isStuck(int rank) const;
  std::vector<Edge> edgesOf(int rank) const;
  std::vector<Edge> circleThrough(int rank) const;
  CallVerdict circle(const std::vector<Edge>& edges) const;
  CallVerdict overdue(const Attendance& attendance) const;
  std::string text(const Edge& edge) const;

  std::vector<std::optional<Known>> known_;  // by rank
  uint32_t round_ = 0;                       // round of the latest inquiry; 0: none yet
  int answered_ = 0;                         // answers to that inquiry
  int64_t asked_ns_ = 0;
  std::optional<uint32_t> inquiry_;
  int overdue_rank_ = -1;  // the first rank whose deadline has passed
  int64_t decide_ns_ = INT64_MAX;
};

}  // namespace horing
