#pragma once
// A rank's end of the control plane once it is connected: its thread, and what that shares with the threads of the caller.
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
#include "base/no_memory.h"
#include "base/service_thread.h"
#include "control/control.h"
#include "control/control_channel.h"
#include "control/control_journal.h"
#include "control/control_messages.h"
#include "control/liveness.h"

namespace horing {

// Every member function takes mutex_, but for those whose comment says that it is held.
class JoinedControl final : public Control {
 public:
  JoinedControl(const JoinOptions& options, const UniqueIdParts& parts,
                std::unique_ptr<ControlChannel> channel)
      : options_(options), where_(parts.roots.front().text()), key_(jobKey(parts, "control")) {
    [[maybe_unused]] const Status& made = noMemory();  // while there is memory for its text
    randomBytes(secret_);
    takeChannel(std::move(channel));
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
  int fd() const override;
  int failedRank() const override;
  void announceError(const Status& error) override;
  void leave() override;
  void answerFrom(const CallLog& calls, const CallLog& launches) override;
  void onFailure(std::function<void(const Status& error)> action) override;
  void onQuestion(std::function<void()> action) override;
  void reportCall(const CallReport& report) override;
  void reportState(const RankState& state) override;
  std::string describeRank(int rank) const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  void turn(Lock& lock);
  void runOutOfMemory(Lock& lock);
  void runFailureAction(Lock& lock);
  void runQuestionAction(Lock& lock);
  void stopServing();
  // mutex_ is held in all that follow.
  bool over() const { return root_closed_ || !status_.ok(); }
  // Nothing more will be heard or can be said.
  bool finished() const { return root_closed_ || gone_; }
  // A last word was said, and nothing shows that it has arrived.
  bool owesWord() const { return !finished() && (untold_ || left_); }
  bool beats() const { return status_.ok() && !away_ && !left_; }
  int64_t wakeNs(int64_t now_ns) const;
  void wakeThread() const;
  void takeChannel(std::unique_ptr<ControlChannel> channel);
  void progress(int64_t now_ns);
  bool mayReturn() const;
  void comeBack(Lock& lock);
  void loseRoot();
  void blameRoot(Status status);
  void awaitLastWord(Lock& lock);
  void tellNews();
  void beat(int64_t now_ns);
  void send(const RankMessage& message);
  Status fail(Status status);
  Status giveUp(Status why);
  void judgeChannel(const Status& moved);
  Status readMessages(int64_t now_ns);
  Status handle(RootMessage message);
  Status handleWelcome(WelcomeMessage& welcome);
  Status handleReturned(const ReturnedMessage& returned);
  Status handleGathered(GatheredMessage& gathered);
  void answer(const CallInquiry& inquiry);
  void answer(const StateInquiry& inquiry);
  template <typename Predicate>
  Status waitUntil(Lock& lock, Deadline deadline, const char* what, Predicate done);
  std::string rootName() const;

  JoinOptions options_;
  std::string where_;
  Key key_;
  ReturnSecret secret_;
  Fd wake_;  // written to make the thread look again
  Fd news_;  // written once, when over() becomes true
  ServiceThread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something that a waitUntil() may wait for
  std::atomic<bool> news_told_{false};
  bool stop_ = false;
  std::unique_ptr<ControlChannel> channel_;
  Endpoint return_to_;
  ControlJournal journal_;
  // The connection broke, and no other one has taken its place yet: what is to be said is kept.
  bool away_ = false;
  std::optional<Deadline> back_by_;
  Liveness liveness_;  // of the rendezvous, member 0
  int64_t next_beat_ns_ = INT64_MAX;
  Status status_;
  int failed_rank_ = -1;
  bool announced_ = false;
  bool unsaid_ = false;  // there was no memory for the announcement of status_
  bool untold_ = false;  // announced an error, and has not heard of any failure since
  bool left_ = false;    // said goodbye; the rendezvous closes the connection when it has heard that
  bool root_closed_ = false;
  bool gone_ = false;  // the connection is over, and no other one will take its place

  const CallLog* calls_ = nullptr;
  const CallLog* launches_ = nullptr;
  std::function<void(const Status&)> on_failure_;
  std::function<void()> on_question_;
  bool was_asked_ = false;
  int64_t serves_until_ns_ = INT64_MIN;  // with on_question_
  std::optional<WelcomeMessage> welcome_;
  uint64_t exchange_ = 1;              // the next one
  uint64_t asked_ = 0, answered_ = 0;  // the last ping, the last pong
  std::optional<std::vector<std::vector<std::byte>>> gathered_;
};

}  // namespace horing
