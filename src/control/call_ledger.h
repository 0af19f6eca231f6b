#pragma once
// Finds the rank to blame when ranks wait for each other, from the ranks' reports about their calls. No I/O, no clock; the
// rendezvous feeds it (control/rendezvous.h).
//
// A rank that waits reports its call. The rendezvous then asks all ranks about that call; each control thread answers at once, even
// if its program is busy. There are three verdicts: ranks made different calls under one number; a rank left before the call; or a
// deadline has passed and a rank never made the call. A slow rank alone causes no verdict. A deadline's verdict about more than half of the
// ranks blames none.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "control/call_report.h"

namespace horing {

// An inquiry to every rank about one call.
struct CallInquiry {
  uint64_t sequence = 0;
  uint32_t round = 0;
};

struct CallVerdict {
  Code code = Code::kInvalidUsage;
  int rank = -1;  // the rank to blame; -1: none in particular
  std::string reason;
};

// The state of the ranks as the rendezvous knows it. A rank that is not present has left.
struct Attendance {
  int ranks = 0;
  int present = 0;
  std::function<bool(int)> is_present;
};

class CallLedger {
 public:
  // The limit of calls under inquiry at one time. Waiting ranks are spread over few calls.
  static constexpr size_t kMaxCases = 8;

  // `limit`: what ends the waiting for an overdue call, for its verdict.
  explicit CallLedger(std::string limit = "HORING_TIMEOUT_MS") : limit_(std::move(limit)) {}

  // Takes the report of rank 0 <= rank < ranks, received at now_ns.
  void report(int rank, int ranks, CallReport report, int64_t now_ns);
  // The inquiries to send to all ranks. Empties the list.
  std::vector<CallInquiry> takeInquiries() { return std::exchange(inquiries_, {}); }
  std::optional<CallVerdict> judge(const Attendance& attendance, int64_t now_ns) const;
  // The rank has left in order: it makes no calls after the ones in its last report.
  void left(int rank, int ranks);
  // The time at which judge() may reach a verdict without another report; INT64_MAX: never.
  int64_t nextLookNs() const;

 private:
  // Everything known about one call.
  struct Case {
    std::vector<std::optional<CallReport>> reports;  // by rank, the latest
    std::map<uint64_t, int> callers;                 // number of callers by digest of the call
    int called = 0;                                  // the sum of callers' values
    uint32_t round = 0;                              // round of the latest inquiry; 0: none yet
    int answered = 0;                                // answers to that inquiry
    int64_t asked_ns = 0;
    int64_t heard_ns = 0;
    int64_t decide_ns = INT64_MAX;  // from then on judge() waits neither for answers nor for more callers
    uint32_t overdue_ms = 0;        // the deadline that has passed; 0: none
  };

  Case& caseOf(uint64_t sequence, int ranks, int64_t now_ns);
  void note(Case& one, int rank, CallReport report);
  void ask(uint64_t sequence, Case& one, int64_t now_ns);
  static bool ripe(const Case& one, const Attendance& attendance, int64_t now_ns);
  static CallVerdict disagreement(uint64_t sequence, const Case& one);
  std::optional<CallVerdict> desertion(uint64_t sequence, const Case& one,
                                       const Attendance& attendance) const;
  CallVerdict overdue(uint64_t sequence, const Case& one, const Attendance& attendance) const;

  std::string limit_;
  std::map<uint64_t, Case> cases_;  // by sequence
  // What a rank has begun: one more than its last call, and one more than its last launch (from kFirstLaunch on).
  struct Begun {
    uint64_t calls = 0, launches = kFirstLaunch;
    // Ranks do not report graph replays when they leave.
    uint64_t of(uint64_t sequence) const {
      return sequence < kFirstLaunch ? calls : sequence < kFirstReplay ? launches : UINT64_MAX;
    }
  };
  std::vector<Begun> begun_;                    // by rank, from its reports; a rank reports before it leaves
  Begun least_left_{kFirstLaunch, UINT64_MAX};  // the minimum over the ranks that have left
  std::vector<CallInquiry> inquiries_;
};

}  // namespace horing
