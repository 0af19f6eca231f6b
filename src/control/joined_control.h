#pragma once
// A rank's end of the control plane once it is connected: its thread, and the state that this shares with the callers' threads.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/hex.h"
#include "base/no_memory.h"
#include "base/service_thread.h"
#include "base/watch.h"
#include "control/connection_state.h"
#include "control/control.h"
#include "control/control_channel.h"
#include "control/control_journal.h"
#include "control/control_messages.h"
#include "control/job_window.h"
#include "control/liveness.h"
#include "control/pace.h"

namespace horing {

// Every member function takes mutex_, except where a comment says that the caller holds it.
class JoinedControl final : public Control {
 public:
  JoinedControl(const JoinOptions& options, const UniqueIdParts& parts,
                std::unique_ptr<ControlChannel> channel)
      : options_(options),
        where_(parts.roots.front().text()),
        job_(hexText(std::span(parts.job).first(4))),
        key_(jobKey(parts, "control")) {
    [[maybe_unused]] const Status& made = noMemory();  // made now, while there is memory for its text
    randomBytes(secret_);
    [[maybe_unused]] const Status taken = takeChannel(std::move(channel));  // nothing watches it yet
  }
  ~JoinedControl() override;

  // Starts the thread.
  Status begin();
  Status arrive(Deadline deadline);

  int rank() const override { return options_.rank; }
  int ranks() const override { return options_.ranks; }
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine, Deadline deadline,
                                                        std::string_view what) override;
  bool isBehind() const override;
  Status catchUp(Deadline deadline) override;
  Status status() const override;
  bool isOver(int64_t within_ms) const override;
  int failedRank() const override;
  void announceError(const Status& error) override;
  void leave() override;
  void answerFrom(const CallLog& calls, const CallLog& launches) override;
  void onFailure(std::function<void(const Status& error)> action) override;
  void onQuestion(std::function<bool()> action) override;
  void reportCall(const CallReport& report) override;
  void reportState(const RankState& state) override;
  std::string describeRank(int rank) const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Status watchAndServe();
  void serve();
  void turn(Lock& lock);
  void runOutOfMemory(Lock& lock);
  void runFailureAction(Lock& lock);
  void runQuestionAction(Lock& lock);
  void stopServing();
  // The caller holds mutex_ for all functions below.
  bool over() const { return rootClosed() || !status_.ok(); }
  bool rootClosed() const { return state_ == ConnectionState::kClosed; }
  bool finished() const { return isFinished(state_); }
  // This rank failed, and the other ranks may not know of any failure yet.
  bool failureIsUnknown() const {
    return announcement_ == Announcement::kOwed || announcement_ == Announcement::kSent;
  }
  // The last message was sent, and its arrival is not confirmed.
  bool awaitsDelivery() const { return !finished() && (failureIsUnknown() || left_); }
  bool beats() const { return status_.ok() && !isAway(state_) && !left_; }
  void note(ConnectionEvent event);
  int64_t wakeNs(int64_t now_ns) const;
  void wakeThread() const;
  Status takeChannel(std::unique_ptr<ControlChannel> channel);
  void progress(int64_t now_ns);
  bool mayReturn() const;
  void reconnect(Lock& lock);
  void loseRoot();
  void loseConnection(const Status& why);
  void blameRoot(Status status);
  void awaitDelivery(Lock& lock);
  void beat(int64_t now_ns);
  void tellPace(int64_t now_ns);
  void receiveVisitors(int64_t now_ns);
  void answerVisitors(const std::vector<std::string>& of_root);
  void send(const RankMessage& message);
  Status fail(Status status);
  Status giveUp(Status why);
  void judgeChannel(const Status& moved);
  Status readMessages(int64_t now_ns);
  Status handle(RootMessage message);
  void handleFailure(const FailureMessage& failure);
  Status handleWelcome(WelcomeMessage& welcome);
  Status handleReturned(const ReturnedMessage& returned);
  Status handleGathered(GatheredMessage& gathered);
  void answer(const CallInquiry& inquiry);
  void answer(const StateInquiry& inquiry);
  Deadline judgedBy(Deadline deadline) const;
  template <typename Predicate>
  Status waitUntil(Lock& lock, Deadline deadline, const char* what, Predicate done);
  std::string rootName() const;

  JoinOptions options_;
  std::string where_;
  std::string job_;  // as in names of files
  Key key_;
  ReturnSecret secret_;
  JobWindow window_;
  std::unique_ptr<Watch> watch_;  // of the thread: the connection, and wake-ups by other threads
  ServiceThread thread_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // a condition of waitUntil() or isOver() may have changed
  std::atomic<bool> has_news_{false};        // over() is true
  bool stop_ = false;
  std::unique_ptr<ControlChannel> channel_;
  Endpoint return_to_;
  ControlJournal journal_;
  ConnectionState state_ = ConnectionState::kUp;
  std::optional<Deadline> back_by_;  // while the connection is broken
  Liveness liveness_;                // of the rendezvous, which is member 0
  int64_t next_beat_ns_ = INT64_MAX;
  PaceMeter pace_;
  int64_t next_pace_ns_ = INT64_MAX;
  int64_t visitors_until_ns_ = INT64_MAX;  // when they are answered without the rendezvous
  Status status_;
  int failed_rank_ = -1;
  // Whether the other ranks know status_, if it is this rank's own failure.
  enum class Announcement : uint8_t {
    kNone,
    kOwed,     // not sent for want of memory
    kSent,     // sent, but the connection may have broken
    kNeedless  // the rendezvous has announced a failure since
  };
  Announcement announcement_ = Announcement::kNone;
  bool left_ = false;  // sent Goodbye; the rendezvous closes the connection when it has received it

  const CallLog* calls_ = nullptr;
  const CallLog* launches_ = nullptr;
  std::function<void(const Status&)> on_failure_;
  std::function<bool()> on_question_;
  int64_t serves_until_ns_ = INT64_MIN;  // with on_question_; INT64_MAX: an inquiry has just arrived
  bool serves_on_ = false;               // on_question_ found something to do
  std::optional<WelcomeMessage> welcome_;
  uint64_t exchange_ = 1;              // the number of the next exchange
  uint64_t asked_ = 0, answered_ = 0;  // number of the last ping sent, and of the last pong received
  std::optional<std::vector<std::vector<std::byte>>> gathered_;
};

}  // namespace horing
