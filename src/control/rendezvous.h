#pragma once
// The decisions of the rendezvous, without any I/O: arrivals, the current exchange, and the first failure. control/root_service.cpp
// feeds it and sends its messages.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "control/call_ledger.h"
#include "control/control_channel.h"
#include "control/control_messages.h"
#include "control/pace_judge.h"
#include "control/wait_graph.h"

namespace horing {

// Exchange 0 is the arrival of all ranks; 1, 2, ... are all-gathers. Times are nanoseconds of one monotonic clock.
class Rendezvous {
 public:
  // The port to which ranks may return, sent in Welcome.
  explicit Rendezvous(ProcessName host, uint16_t return_port = 0)
      : host_(std::move(host)), return_port_(return_port) {}

  // A process introduces itself. An error is for that process only; if it ends the communicator for all ranks, the others receive
  // it through takeBroadcasts().
  Status hello(const HelloMessage& hello, int64_t now_ns);
  // The next seven take the rank that a hello() accepted. An error from gather() means that the rank violated the protocol.
  Status gather(int rank, GatherMessage message, int64_t now_ns);
  void announce(int rank, const AnnounceMessage& message);
  void goodbye(int rank);
  void lost(int rank, const std::string& why);
  // A rank's report on a call.
  void report(int rank, CallReport report, int64_t now_ns);
  // A rank's report on its activity.
  void tell(int rank, RankState state, int64_t now_ns);
  // The pace of a rank in the last second.
  void notePace(int rank, const Pace& pace, int64_t now_ns);
  // Present ranks, not empty, that have been silent for this long.
  void silent(std::span<const int> ranks, int64_t silence_ms);

  // Ends an exchange whose deadline has passed, and the waiting for more reports.
  void tick(int64_t now_ns);
  // Once in an exchange that takes long: the missing ranks, which is no error yet; empty: none.
  std::string takeLate(int64_t now_ns);
  // The ranks that make others wait, which is no error: a line when a finding begins to last, and when it ends. Empties the list.
  std::vector<std::string> takePaceNews();
  // The pace of all ranks, for people: a line for each rank that makes others wait, and one for each rank. `silence_ns`: since when nothing
  // was heard of a rank.
  std::vector<std::string> jobLines(int64_t now_ns, const std::function<int64_t(int)>& silence_ns) const;
  // When to call tick() and takeLate(); INT64_MAX: not before another event.
  int64_t nextTickNs() const;

  // An event that might explain why a rank does not arrive; added to the error if it does not.
  void noteTrouble(std::string trouble) { trouble_ = std::move(trouble); }
  // The ranks that have not arrived yet cannot arrive any more, because of `why`.
  void cannotTakeMore(const Status& why);

  // The messages for all present ranks, in order. Empties the list.
  std::vector<SharedMessage> takeBroadcasts() { return std::exchange(broadcasts_, {}); }

  bool anyoneCame() const { return arrived_ > 0; }
  bool complete() const { return ranks_ > 0 && arrived_ == ranks_; }
  bool failed() const { return failed_; }
  // The communicator has failed, and every rank has received the failure: no rank is left that might arrive and ask.
  bool everyoneKnows() const { return failed_ && ranks_ > 0 && arrived_ + refused_ >= ranks_; }
  // Ranks that arrived and have neither left nor been lost.
  int present() const { return present_; }

 private:
  enum class Presence : uint8_t { kAwaited, kPresent, kLeft, kLost };
  struct Member {
    Presence presence = Presence::kAwaited;
    bool gave = false;  // its blob for the current exchange has arrived
    ProcessName process;
    std::vector<std::byte> part;
    Pace pace{};  // the latest
    int64_t pace_ns = INT64_MIN / 2;
    bool hasPaceAt(int64_t now_ns) const { return now_ns - pace_ns <= 3 * kPaceNs; }
  };

  Status judge(const HelloMessage& hello) const;
  void fail(Code code, int about_rank, std::string reason);
  void expect(uint32_t timeout_ms, uint32_t spent_ms, int64_t now_ns);
  void finishExchange();
  void judgeCalls(int64_t now_ns);
  void welcome();
  bool came(int rank) const;
  // The missing ranks at a deadline, at least one.
  std::vector<int> missing() const;
  // `ms`: the duration of the exchange so far.
  std::string late(int64_t ms) const;
  // "horingCommSplit", or "exchange 3" if it has no name.
  std::string exchangeText() const;
  std::string name(int rank) const;
  std::string text(const PaceFinding& finding, bool lasts) const;
  std::string standstill(int64_t now_ns) const;
  Member& member(int rank) { return members_[static_cast<size_t>(rank)]; }

  ProcessName host_;
  uint16_t return_port_;
  int ranks_ = 0;  // 0 until the first rank has arrived
  int arrived_ = 0;
  int present_ = 0;
  int refused_ = 0;
  int gave_ = 0;
  int first_rank_ = -1;
  uint64_t exchange_ = 0;
  std::string what_;  // the operation that needs the exchange; empty: unknown
  std::vector<Member> members_;
  std::optional<int64_t> deadline_ns_;
  uint32_t timeout_ms_ = 0;
  int64_t late_ns_ = INT64_MAX;      // when to report the missing ranks
  std::atomic<bool> failed_{false};  // read by other threads, too
  FailureMessage failure_;
  CallLedger ledger_;
  WaitGraph waiting_;
  PaceJudge paces_;
  std::string trouble_;
  std::vector<SharedMessage> broadcasts_;
};

}  // namespace horing
