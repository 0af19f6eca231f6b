#include "comm/gpu/launch_watch.h"

#include <chrono>
#include <utility>

#include "base/no_memory.h"
#include "engine/host/transfer_record.h"

namespace horing {

namespace {

// Between two polls; a timeline needs precise end times.
constexpr std::chrono::milliseconds kPause{50}, kPauseOfTimeline{1};
// Time for all ranks to learn the reason before their kernels are ended.
constexpr int64_t kHearNs = 50'000'000;
// Idle polls before the thread sleeps: waking it costs the caller more than the polls do.
constexpr int kIdleLooks = 20;

}  // namespace

LaunchWatch::LaunchWatch(Communicator& communicator, GpuTeam& team)
    : communicator_(communicator),
      team_(team),
      watchdog_(communicator.records().launches(), communicator.membership().control(), clock_,
                communicator.membership().log(), communicator.membership().aborted()) {
  communicator.records().launches().answerReplaysFrom(
      [&team, rank = communicator.membership().rank()] { return team.replayRuns(rank); });
}

LaunchWatch::~LaunchWatch() {
  communicator_.records().launches().answerReplaysFrom(nullptr);
  if (!thread_.started()) return;
  thread_.end([this] {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  });
  // Records launches that no poll has seen, for the timeline.
  [[maybe_unused]] const Status seen = noteEnded();
}

Result<uint64_t> LaunchWatch::begin(FlightRecord launch) {
  const std::lock_guard lock(mutex_);
  HORING_TRY(startThread());
  launch.sequence = next_++;
  launch.begun_ns = clock_.nowNs();
  if (ended_ == launch.sequence) went_on_ns_ = launch.begun_ns;
  communicator_.records().launches().recorder().begin(launch);
  if (sleeps_) changed_.notify_all();
  return launch.sequence;
}

Status LaunchWatch::beginMessages(std::span<const Transfer> transfers) {
  const std::lock_guard lock(mutex_);
  HORING_TRY(startThread());
  recordMessages(transfers);
  ++messages_begun_;
  if (sleeps_) changed_.notify_all();
  return {};
}

void LaunchWatch::recordMessages(std::span<const Transfer> transfers) {
  MessageRecorder& recorder = communicator_.records().launches().messages();
  if (!recorder.keepsAll()) return;
  recorder.setNow(clock_.nowNs());
  if (!recorder.recordsEach(transfers.size())) {
    RecordedMessage group = groupRecordOf(transfers);
    group.number = messages_begun_;
    recorder.begin(group);
    return;
  }
  for (const Transfer& transfer : transfers) recorder.begin(recordOf(transfer, messages_begun_));
}

// Those of launches that have ended.
void LaunchWatch::endMessages() {
  MessageRecorder& recorder = communicator_.records().launches().messages();
  recorder.setNow(clock_.nowNs());
  for (; records_ended_ < recorder.begun(); ++records_ended_) {
    const std::optional<RecordedMessage> record = recorder.record(records_ended_);
    if (record && record->number >= messages_ended_) return;
    recorder.end(MessageRecorder::handleOf(records_ended_));
  }
}

Status LaunchWatch::startThread() {
  if (thread_.started()) return {};
  return thread_.start("a watch over kernels", [this] { serve(); });
}

void LaunchWatch::recorded(uint64_t launch) {
  const std::lock_guard lock(mutex_);
  recorded_.insert(launch);
  end(0);
}

void LaunchWatch::withdrawn(uint64_t launch) {
  const std::lock_guard lock(mutex_);
  withdrawn_.insert(launch);
  communicator_.records().launches().recorder().end(launch, clock_.nowNs(), Outcome::kWithdrawn);
  end(0);
}

// Under mutex_: the GPU has finished `done` launches. A recorded or withdrawn launch ends with the launch before it.
void LaunchWatch::end(uint64_t done) {
  FlightRecorder& recorder = communicator_.records().launches().recorder();
  for (;; ++ended_) {
    const bool is_none = withdrawn_.erase(ended_) > 0, is_done = ended_ - passed_over_ < done;
    const bool has_run = !is_none && recorded_.erase(ended_) == 0;
    if (has_run && !is_done) return;
    passed_over_ += is_none;
    went_on_ns_ = clock_.nowNs();
    recorder.end(ended_, went_on_ns_, Outcome::kDone);
    if (Timeline* const timeline = communicator_.records().timeline(); timeline && has_run)
      if (const auto record = recorder.find(ended_)) timeline->launch(*record);
  }
}

void LaunchWatch::serve() {
  int idle = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    sleeps_ = has_failed_ || idle >= kIdleLooks;
    if (sleeps_) {
      // After a failure launches no longer end, and nothing is left to watch.
      changed_.wait(lock,
                    [this] { return stop_ || (!has_failed_ && (ended_ < next_ || areMessagesUnderWay())); });
    } else {
      changed_.wait_for(lock, communicator_.records().timeline() ? kPauseOfTimeline : kPause,
                        [this] { return stop_; });
    }
    lock.unlock();
    bool any = false, has_failed = false;
    // If memory runs out, the next look has to do.
    [[maybe_unused]] const Status looked = withoutExceptions([&] {
      const Result<bool> found = look();
      has_failed = !found.ok();
      any = found.ok() && found.value();
    });
    idle = any ? 0 : idle + 1;
    lock.lock();
    has_failed_ = has_failed;
  }
}

Status LaunchWatch::noteEnded() {
  HORING_ASSIGN(const GpuLaunches::Done done, team_.launches().done(membership_.rank()));
  const std::lock_guard lock(mutex_);
  messages_ended_ = done.messages;
  endMessages();
  end(done.calls);
  return {};
}

Result<bool> LaunchWatch::look() {
  // Kernels wait for lost ranks.
  const Status heard = membership_.control().status();
  const bool is_over = !heard.ok() && clock_.nowNs() >= abort_from_ns_;
  if (is_over) team_.abort();
  if (const Status failed = outcome(); !failed.ok()) {
    if (is_over) return failed;
    if (failed.code() != Code::kRemoteError) membership_.control().announceError(failed);
    return true;
  }
  if (Status seen = noteEnded(); !seen.ok()) {
    {
      const std::lock_guard judging(judge_mutex_);
      if (!judged_) judged_ = seen;
    }
    // The program may never use this communicator again, while kernels of other ranks wait for this rank's. Its kernels are ended once all
    // ranks know the reason.
    membership_.control().announceError(seen);
    abort_from_ns_ = clock_.nowNs() + kHearNs;
    return true;
  }
  const std::lock_guard judging(judge_mutex_);
  uint64_t oldest = 0;
  int64_t went_on_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ == next_) {
      watchdog_.wentOn();
      return areMessagesUnderWay();
    }
    oldest = ended_;
    went_on_ns = went_on_ns_;
  }
  watchdog_.look(kFirstLaunch + oldest, clock_.nowNs() - went_on_ns, [this] {
    return Obstacle{team_.launches().behind(membership_.rank()), "the kernel on its GPU has not ended"};
  });
  return true;
}

Status LaunchWatch::judge(uint64_t launch, const Status& own) {
  return judge(launch, own, communicator_.timeoutMs());
}

Status LaunchWatch::judge(uint64_t launch, const Status& own, int64_t timeout_ms) {
  // Other ranks need not have launched it.
  if (launch == cuda::kNoCall) {
    Status known = membership_.control().status();
    return known.ok() ? own : known;
  }
  return judgeCall(kFirstLaunch + launch, {team_.launches().behind(membership_.rank()), own.message()}, own,
                   timeout_ms);
}

Status LaunchWatch::judgeCall(uint64_t number, const Obstacle& obstacle, const Status& own,
                              int64_t timeout_ms) {
  const std::lock_guard judging(judge_mutex_);
  if (Status known = membership_.control().status(); !known.ok()) return known;
  if (own.code() == Code::kTimeout) return watchdog_.overdue(number, obstacle, timeout_ms, own);
  return watchdog_.failed(
      number, [&] { return obstacle; }, own);
}

Status LaunchWatch::outcome() {
  {
    const std::lock_guard judging(judge_mutex_);
    if (judged_) return *judged_;
  }
  const GpuTeam::Ended ended = team_.outcome();
  if (ended.status.ok()) return {};
  // Messages are not in the ledger, and their kernels may be seen here before their rank has reported them.
  const bool is_heard = !ended.replay && !ended.launch && ended.rank != membership_.rank();
  const Status own = is_heard ? Status(Code::kRemoteError, ended.status.message()) : ended.status;
  const Status judged = ended.replay
                            ? judgeCall(ended.replay->encoded(), {{}, own.message()}, own, ended.timeout_ms)
                            : judge(ended.launch.value_or(cuda::kNoCall), own, ended.timeout_ms);
  const std::lock_guard judging(judge_mutex_);
  if (!judged_) judged_ = judged;
  return *judged_;
}

}  // namespace horing
