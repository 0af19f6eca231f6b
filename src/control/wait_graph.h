#pragma once
// Who waits for whom while messages are exchanged: judges from what ranks say of themselves whether they wait in a circle. No
// I/O, no clock; the rendezvous feeds it (control/rendezvous.h).
//
// Sends and receives have no number that all ranks share, so nobody can be said to have called the wrong thing; but a rank that
// waits for one that waits for it, perhaps through others, waits for ever. A rank that waits for a message says so. All ranks are
// then asked what they do; every one answers at once, whatever its program does. Three verdicts can follow: a circle in which
// nothing has moved for kStuckMs on any rank; a message due from a rank that has left; a deadline that has passed, and where the
// waiting ends. A rank that is in no call, or has just moved, is merely late; and so is one that says so only once: after a job was
// stopped for a while and goes on, all its ranks seem to have waited, though messages lie at their doors.
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
  // Longer than data stays under way where a connection breaks and is made again.
  static constexpr uint32_t kStuckMs = 10'000;
  // For so long a rank says in answer after answer that it is stuck before that counts.
  static constexpr uint32_t kSureMs = 1'000;

  // What rank 0 <= rank < ranks says, at now_ns.
  void tell(int rank, int ranks, RankState state, int64_t now_ns);
  // The round of an inquiry to put to all ranks, once.
  std::optional<uint32_t> takeInquiry() { return std::exchange(inquiry_, std::nullopt); }
  std::optional<CallVerdict> judge(const Attendance& attendance, int64_t now_ns) const;
  // When judge() may know more though nobody says any more; INT64_MAX: never.
  int64_t nextLookNs() const { return decide_ns_; }

 private:
  // One rank waits for another, which is to send or to take.
  struct Edge {
    int from = 0;
    int to = 0;
    bool takes = true;
  };
  // What is known of a rank.
  struct Known {
    RankState state;               // the latest
    int64_t told_ns = 0;           // when it said so
    int64_t stuck_ns = INT64_MAX;  // when it first said that it is stuck, and has ever since
  };
  const RankState* state(int rank) const;
  bool isStuck(int rank) const;
  std::vector<Edge> edgesOf(int rank) const;
  std::vector<Edge> circleThrough(int rank) const;
  CallVerdict circle(const std::vector<Edge>& edges) const;
  CallVerdict overdue(const Attendance& attendance) const;
  std::string text(const Edge& edge) const;

  std::vector<std::optional<Known>> known_;  // by rank
  uint32_t round_ = 0;                       // of the latest inquiry; 0: none yet
  int answered_ = 0;                         // to it
  int64_t asked_ns_ = 0;
  std::optional<uint32_t> inquiry_;
  int overdue_rank_ = -1;  // the first whose deadline has passed
  int64_t decide_ns_ = INT64_MAX;
};

}  // namespace horing
