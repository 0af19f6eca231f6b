#pragma once
// Who called what: judges from what ranks report of their calls who is to blame when they wait for each other. No I/O, no
// clock; the rendezvous feeds it (control/rendezvous.h).
//
// A rank that waits reports its call. All ranks are then asked about that call; every one answers at once, whatever its
// program does. Three verdicts can follow: ranks called different things under one number; somebody left before the call; or a
// deadline has passed and somebody never made it. A slow rank alone is no verdict.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "control/call_report.h"

namespace horing {

// To every rank: what do you know of this call?
struct CallInquiry {
  uint64_t sequence = 0;
  uint32_t round = 0;
};

struct CallVerdict {
  Code code = Code::kInvalidUsage;
  int rank = -1;  // whom it is about; -1: no one rank
  std::string reason;
};

// How ranks stand to the communicator, as the rendezvous knows it. Who is not present has left.
struct Attendance {
  int ranks = 0;
  int present = 0;
  std::function<bool(int)> is_present;
};

class CallLedger {
 public:
  // Calls that are looked into at one time; ranks that wait are in few calls.
  static constexpr size_t kMaxCases = 8;

  // What rank 0 <= rank < ranks says, at now_ns.
  void report(int rank, int ranks, CallReport report, int64_t now_ns);
  // What to ask all ranks. Empties the list.
  std::vector<CallInquiry> takeInquiries() { return std::exchange(inquiries_, {}); }
  std::optional<CallVerdict> judge(const Attendance& attendance, int64_t now_ns) const;
  // The rank has left in order: it will make no more calls than it has told of.
  void left(int rank, int ranks);
  // When judge() may know more though nobody says any more; INT64_MAX: never.
  int64_t nextLookNs() const;

 private:
  // All that is known of one call.
  struct Case {
    std::vector<std::optional<CallReport>> reports;  // by rank, the latest
    std::map<uint64_t, int> callers;                 // how many called what, by digest
    int called = 0;                                  // the sum of these
    uint32_t round = 0;                              // of the latest inquiry; 0: none yet
    int answered = 0;                                // to it
    int64_t asked_ns = 0;
    int64_t heard_ns = 0;
    int64_t decide_ns = INT64_MAX;  // no longer waiting for answers, or for more ranks to call, from then on
    uint32_t overdue_ms = 0;        // the deadline that has passed; 0: none has
  };

  Case& caseOf(uint64_t sequence, int ranks, int64_t now_ns);
  void note(Case& one, int rank, CallReport report);
  void ask(uint64_t sequence, Case& one, int64_t now_ns);
  static bool ripe(const Case& one, const Attendance& attendance, int64_t now_ns);
  static CallVerdict disagreement(uint64_t sequence, const Case& one);
  std::optional<CallVerdict> desertion(uint64_t sequence, const Case& one,
                                       const Attendance& attendance) const;
  static CallVerdict overdue(uint64_t sequence, const Case& one, const Attendance& attendance);

  std::map<uint64_t, Case> cases_;  // by sequence
  // What a rank has begun: the number behind its last call, and behind its last launch (from kFirstLaunch on).
  struct Begun {
    uint64_t calls = 0, launches = kFirstLaunch;
    // Nobody tells of replays before it leaves.
    uint64_t of(uint64_t sequence) const {
      return sequence < kFirstLaunch ? calls : sequence < kFirstReplay ? launches : UINT64_MAX;
    }
  };
  std::vector<Begun> begun_;                    // by rank, as far as it told; who leaves tells before
  Begun least_left_{kFirstLaunch, UINT64_MAX};  // the least of those that have left
  std::vector<CallInquiry> inquiries_;
};

}  // namespace horing
