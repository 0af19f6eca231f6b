#pragma once
// What the rendezvous knows and decides, without any I/O: who has come, the exchange that is going on, and
// the first thing that went wrong. control/root_service.cpp feeds it and sends what it says.
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "control/call_ledger.h"
#include "control/control_channel.h"
#include "control/control_messages.h"
#include "control/wait_graph.h"

namespace horing {

// Exchange 0 is the arrival of all ranks; 1, 2, ... are all-gathers. Times are nanoseconds of one monotonic
// clock.
class Rendezvous {
 public:
  // Ranks are told of the port to which they may return.
  explicit Rendezvous(ProcessName host, uint16_t return_port = 0)
      : host_(std::move(host)), return_port_(return_port) {}

  // A process says who it is. An error is for that process only to read; where it ends the communicator for
  // everybody, the others hear of it through takeBroadcasts().
  Status hello(const HelloMessage& hello, int64_t now_ns);
  // The next six take the rank that a hello() accepted. An error from gather() means that the rank broke the
  // protocol.
  Status gather(int rank, GatherMessage message, int64_t now_ns);
  void announce(int rank, const AnnounceMessage& message);
  void goodbye(int rank);
  void lost(int rank, const std::string& why);
  // What a rank knows of a call.
  void report(int rank, CallReport report, int64_t now_ns);
  // What a rank does.
  void tell(int rank, RankState state, int64_t now_ns);
  // Present ranks, not empty, that nobody has heard of for so long.
  void silent(std::span<const int> ranks, int64_t silence_ms);

  // Ends an exchange whose time is up, and waiting for more reports.
  void tick(int64_t now_ns);
  // Once in an exchange that takes long: whom it waits for, which is no error yet; empty: nothing to tell.
  std::string takeLate(int64_t now_ns);
  // When to call these two; INT64_MAX: not before something else happens.
  int64_t nextTickNs() const;

  // Something odd that might explain why a rank does not arrive; told when it does not.
  void noteTrouble(std::string trouble) { trouble_ = std::move(trouble); }
  // Whoever has not come yet cannot come.
  void cannotTakeMore(const Status& why);

  // Messages for every rank that is present, in order. Empties the list.
  std::vector<SharedMessage> takeBroadcasts() { return std::exchange(broadcasts_, {}); }

  bool anyoneCame() const { return arrived_ > 0; }
  bool complete() const { return ranks_ > 0 && arrived_ == ranks_; }
  bool failed() const { return failed_; }
  // It has failed, and as many ranks as there are to be have been told: nobody is left who might come and ask.
  bool everyoneKnows() const { return failed_ && ranks_ > 0 && arrived_ + refused_ >= ranks_; }
  // Ranks that came and are neither gone nor lost.
  int present() const { return present_; }

 private:
  enum class Presence : uint8_t { kAwaited, kPresent, kLeft, kLost };
  struct Member {
    Presence presence = Presence::kAwaited;
    bool gave = false;  // its part of the current exchange
    ProcessName process;
    std::vector<std::byte> part;
  };

  Status judge(const HelloMessage& hello) const;
  void fail(Code code, int about_rank, std::string reason);
  void expect(uint32_t timeout_ms, uint32_t spent_ms, int64_t now_ns);
  void finishExchange();
  void judgeCalls(int64_t now_ns);
  void welcome();
  bool came(int rank) const;
  // At a deadline: one at least.
  std::vector<int> missing() const;
  // `ms`: how long the exchange has taken.
  std::string late(int64_t ms) const;
  // "horingCommSplit", or "exchange 3" where nobody says what it is.
  std::string exchangeText() const;
  std::string name(int rank) const;
  Member& member(int rank) { return members_[static_cast<size_t>(rank)]; }

  ProcessName host_;
  uint16_t return_port_;
  int ranks_ = 0;  // 0 until the first has come
  int arrived_ = 0;
  int present_ = 0;
  int refused_ = 0;
  int gave_ = 0;
  int first_rank_ = -1;
  uint64_t exchange_ = 0;
  std::string what_;  // the exchange is part of; empty: nobody said
  std::vector<Member> members_;
  std::optional<int64_t> deadline_ns_;
  uint32_t timeout_ms_ = 0;
  int64_t late_ns_ = INT64_MAX;      // when to tell who is
  std::atomic<bool> failed_{false};  // looked at by other threads, too
  FailureMessage failure_;
  CallLedger ledger_;
  WaitGraph waiting_;
  std::string trouble_;
  std::vector<SharedMessage> broadcasts_;
};

}  // namespace horing
