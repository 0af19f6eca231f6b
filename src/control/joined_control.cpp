#include "control/joined_control.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "control/inquiry_times.h"
#include "control/root_connection.h"
#include "control/root_service.h"

namespace horing {

namespace {

// The action of onQuestion() may need several rounds with other ranks, as making a connection does. Once it has found something to do,
// it runs until the next inquiry would come.
constexpr int64_t kServiceNs = 50'000'000, kServicePauseNs = 1'000'000, kBusyServiceNs = 300'000'000;
constexpr int kPollMs = 1000;
// One attempt to reconnect. The kernel would repeat an unanswered SYN only after a second.
constexpr int64_t kReturnAttemptMs = 400;
constexpr int kReturnPauseMs = 20;
// In a row, at the port of the rendezvous: its process has ended. It had 0.5 s to listen again (RootThread::listenAgain).
constexpr int kMostRefusals = 500 / kReturnPauseMs;

SharedMessage shared(const RankMessage& message) {
  return std::make_shared<const std::vector<std::byte>>(encodeMessage(message));
}

}  // namespace

Status JoinedControl::begin() {
  const Status begun = watchAndServe();
  if (begun.ok()) return {};
  return makeStatus(begun.code(), "rank %d cannot serve its connection to the rendezvous at %s: %s",
                    options_.rank, where_.c_str(), begun.message().c_str());
}

Status JoinedControl::watchAndServe() {
  HORING_ASSIGN(watch_, Watch::open());
  HORING_TRY(watch_->add(channel_->fd(), EPOLLIN));
  window_ = JobWindow::open();
  if (window_.valid()) HORING_TRY(watch_->add(window_.fd(), EPOLLIN));
  return thread_.start("the control connection", [this] { serve(); });
}

// An event that cannot happen in the current state changes nothing: callers check before, or report it.
void JoinedControl::note(ConnectionEvent event) {
  state_ = nextState(state_, event).value_or(state_);
}

JoinedControl::~JoinedControl() {
  stopServing();
  watch_.reset();  // before the descriptors that it watches are closed
}

void JoinedControl::stopServing() {
  thread_.end([this] {
    Lock lock(mutex_);
    awaitDelivery(lock);
    stop_ = true;
    wakeThread();
  });
}

// A connection that holds gets kGoodbyeMs; a broken one may be replaced first. The total is bounded even if connections break
// repeatedly.
void JoinedControl::awaitDelivery(Lock& lock) {
  const Deadline latest = Deadline::after(*options_.clock, kReturnTryMs + kGoodbyeMs);
  Deadline here_by = Deadline::after(*options_.clock, kGoodbyeMs);
  while (!stop_ && awaitsDelivery() && !latest.passed() && !here_by.passed()) {
    changed_.wait_for(lock, std::chrono::milliseconds(kAbortCheckMs));
    if (isAway(state_)) here_by = Deadline::after(*options_.clock, kGoodbyeMs);
  }
}

void JoinedControl::wakeThread() const {
  if (watch_) watch_->wake();
}

// The thread continues after an error: the cause may have to be announced, and a goodbye may follow.
void JoinedControl::serve() {
  Lock lock(mutex_);
  while (!stop_ && !finished()) {
    const auto turned = withoutExceptions([&] { turn(lock); });
    if (!turned.ok()) runOutOfMemory(lock);
  }
  // The rendezvous waits for a sign that its last message was received.
  if (rootClosed()) channel_->hangUp();
  changed_.notify_all();
  runFailureAction(lock);
}

// Memory may be available again later; this rank is lost all the same. The other ranks learn it from this rank or, if it cannot
// send, from its silence.
void JoinedControl::runOutOfMemory(Lock& lock) {
  if (!lock.owns_lock()) lock.lock();
  if (status_.ok()) [[maybe_unused]]
    const Status failed = giveUp(noMemory());
  changed_.notify_all();
  lock.unlock();
  ::poll(nullptr, 0, kAbortCheckMs);
  lock.lock();
}

void JoinedControl::turn(Lock& lock) {
  if (state_ == ConnectionState::kBroken) reconnect(lock);
  if (stop_ || finished()) return;
  watch_->change(channel_->fd(), channel_->wantsWrite() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  const int64_t now_ns = options_.clock->nowNs();
  const int64_t wait_ns = wakeNs(now_ns) - now_ns;
  const int64_t most_ms = isAway(state_) ? kAbortCheckMs : kPollMs;
  const int wait_ms = static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, most_ms));
  lock.unlock();
  watch_->wait(wait_ms);
  lock.lock();
  if (!stop_) progress(options_.clock->nowNs());
  runFailureAction(lock);
  if (!stop_) runQuestionAction(lock);
}

void JoinedControl::runFailureAction(Lock& lock) {
  if (status_.ok() || !on_failure_) return;
  const auto action = std::exchange(on_failure_, nullptr);
  const Status error = status_;
  lock.unlock();
  [[maybe_unused]] const Status done = withoutExceptions([&] { action(error); });
  lock.lock();
}

void JoinedControl::runQuestionAction(Lock& lock) {
  const int64_t now_ns = options_.clock->nowNs();
  // Counted from the first call, however late it is.
  if (serves_until_ns_ == INT64_MAX) serves_until_ns_ = now_ns + kServiceNs;
  if (!on_question_ || now_ns >= serves_until_ns_) return;
  auto action = std::move(on_question_);
  lock.unlock();
  [[maybe_unused]] const Status done = withoutExceptions([&] { serves_on_ = action(); });
  lock.lock();
  if (serves_on_) serves_until_ns_ = options_.clock->nowNs() + kBusyServiceNs;
  on_question_ = std::move(action);
}

int64_t JoinedControl::wakeNs(int64_t now_ns) const {
  const bool serves = on_question_ && now_ns < serves_until_ns_;
  const int64_t service_ns = serves ? now_ns + (serves_on_ ? 0 : kServicePauseNs) : INT64_MAX;
  return beats() ? std::min(
                       {service_ns, visitors_until_ns_, next_beat_ns_, next_pace_ns_, liveness_.nextLookNs()})
                 : service_ns;
}

Status JoinedControl::takeChannel(std::unique_ptr<ControlChannel> channel) {
  if (watch_) watch_->remove(channel_->fd());
  channel_ = std::move(channel);
  channel_->allowMessageBytes(maxRootMessageBytes(std::clamp(options_.ranks, 1, kMaxRanks)));
  return watch_ ? watch_->add(channel_->fd(), EPOLLIN) : Status();
}

// Only heartbeats carry the counts that a return needs. After an error that the other ranks know, no return is needed.
bool JoinedControl::mayReturn() const {
  return channel_->broke() && welcome_ && welcome_->return_port != 0 && options_.heartbeat_ms > 0 &&
         (status_.ok() || failureIsUnknown());
}

// Reconnects and sends the count of received messages; the rendezvous' answer completes the return. Also when this rank is aborted,
// because the other ranks are to learn that.
void JoinedControl::reconnect(Lock& lock) {
  int refusals = 0;
  while (!stop_ && !finished()) {
    const int64_t left_ms = std::min<int64_t>(kReturnAttemptMs, back_by_->remainingMs());
    lock.unlock();
    Attempt how = Attempt::kFailed;
    Result<std::unique_ptr<ControlChannel>> connected =
        connectOnce(return_to_, key_, {Deadline::after(*options_.clock, left_ms), nullptr}, &how);
    if (!connected.ok()) ::poll(nullptr, 0, kReturnPauseMs);
    lock.lock();
    if (connected.ok()) {
      if (const Status taken = takeChannel(connected.take()); !taken.ok()) return loseConnection(taken);
      channel_->send(shared(ReturnMessage{options_.rank, secret_, journal_.received()}));
      return note(ConnectionEvent::kConnected);
    }
    options_.log.info("control", "cannot return to the rendezvous yet: %s",
                      connected.status().message().c_str());
    refusals = how == Attempt::kNobodyListens ? refusals + 1 : 0;
    if (how == Attempt::kRefusedHere) {
      loseConnection(connected.status());
    } else if (back_by_->passed() || refusals >= kMostRefusals) {
      loseRoot();
    }
  }
}

// This machine lacks a resource, such as descriptors.
void JoinedControl::loseConnection(const Status& why) {
  note(ConnectionEvent::kEnded);
  [[maybe_unused]] const Status failed =
      fail(makeStatus(why.code(), "rank %d cannot connect to %s again: %s", options_.rank, rootName().c_str(),
                      why.message().c_str()));
}

// A rank that has left does not need the connection.
void JoinedControl::loseRoot() {
  note(ConnectionEvent::kEnded);
  if (!left_)
    blameRoot(makeStatus(Code::kRemoteError, "%s is lost: it ended, or the network to it failed",
                         rootName().c_str()));
}

void JoinedControl::blameRoot(Status status) {
  if (status_.ok() && welcome_) failed_rank_ = welcome_->host_rank;
  [[maybe_unused]] const Status failed = fail(std::move(status));
}

void JoinedControl::progress(int64_t now_ns) {
  if (announcement_ == Announcement::kOwed && !finished()) {
    send(AnnounceMessage{status_.code(), status_.message()});
    announcement_ = Announcement::kSent;
  }
  const Status moved = channel_->progress();
  // After a protocol violation nothing more is read from the rendezvous.
  if (!readMessages(now_ns).ok()) note(ConnectionEvent::kEnded);
  if (!moved.ok() && !finished()) judgeChannel(moved);
  if (isAway(state_) && back_by_->passed()) loseRoot();
  if (!finished() && beats()) beat(now_ns);
  if (!finished() && beats()) tellPace(now_ns);
  receiveVisitors(now_ns);
  changed_.notify_all();
}

void JoinedControl::beat(int64_t now_ns) {
  if (!liveness_.look(now_ns).empty()) {
    note(ConnectionEvent::kEnded);
    return blameRoot(makeStatus(
        Code::kRemoteError,
        "%s has been silent for %lld ms: stopped (SIGSTOP, a debugger), on a machine that hangs, or the "
        "network between it and rank %d is cut. HORING_HEARTBEAT_MS=0 turns this check off",
        rootName().c_str(), static_cast<long long>(liveness_.patienceMs(0)), options_.rank));
  }
  if (now_ns < next_beat_ns_) return;
  next_beat_ns_ = now_ns + options_.heartbeat_ms * 1'000'000;
  send(BeatMessage{static_cast<uint32_t>(options_.heartbeat_ms), journal_.received()});
}

void JoinedControl::tellPace(int64_t now_ns) {
  if (now_ns < next_pace_ns_) return;
  next_pace_ns_ = now_ns + kPaceNs;
  if (const std::optional<Pace> pace = pace_.take(*calls_, now_ns)) send(*pace);
}

void JoinedControl::receiveVisitors(int64_t now_ns) {
  constexpr int64_t kPatienceNs = 1'000'000'000;
  const bool anybody = window_.admit();
  // Without a descriptor for the visitor fd() stays readable and would wake the thread again and again. Until then the thread checks for
  // visitors whenever it wakes for another reason.
  if (window_.isStarved()) watch_->remove(window_.fd());
  if (!anybody) return;
  if (visitors_until_ns_ == INT64_MAX) {
    visitors_until_ns_ = beats() ? now_ns + kPatienceNs : now_ns;
    if (beats()) send(JobQuestion{});
  }
  if (now_ns < visitors_until_ns_) return;
  answerVisitors({!status_.ok()    ? status_.toString()
                  : left_          ? "this rank has left the job"
                  : isAway(state_) ? "the connection to the rendezvous is broken"
                                   : "the rendezvous does not answer"});
}

// This rank's own lines, an empty line, and the lines of the rendezvous.
void JoinedControl::answerVisitors(const std::vector<std::string>& of_root) {
  visitors_until_ns_ = INT64_MAX;
  std::string text = formatString("job %s: rank %d of %d (%s)", job_.c_str(), options_.rank, options_.ranks,
                                  thisProcess().toString().c_str());
  if (calls_) {
    std::string now = calls_->nowText();
    if (now.empty()) now = launches_->nowText();
    text += " in " + (now.empty() ? "no call" : now);
    const CallReport open = calls_->report(calls_->recorder().ended());
    if (!open.obstacle.empty()) text += ": " + open.obstacle;
  }
  text += "\n\n";
  for (const std::string& line : of_root) text += line + "\n";
  window_.answer(text);
}

// The thread sends later what the socket does not take now. Goodbye is the last message.
void JoinedControl::send(const RankMessage& message) {
  if (left_) return;
  SharedMessage bytes = shared(message);
  if (isCounted(message) && options_.heartbeat_ms > 0) journal_.keep(bytes);
  if (isAway(state_)) return;
  channel_->send(std::move(bytes));
  [[maybe_unused]] const Status sent = channel_->flush();
  if (channel_->wantsWrite()) wakeThread();
}

bool JoinedControl::isBehind() const {
  const Lock lock(mutex_);
  pollfd entry{channel_->fd(), POLLIN, 0};
  return !over() && (isAway(state_) || ::poll(&entry, 1, 0) != 0);
}

// A rendezvous that closes has sent everything.
Status JoinedControl::catchUp(Deadline deadline) {
  Lock lock(mutex_);
  if (over()) return status_;
  send(PingMessage{++asked_});
  HORING_TRY(waitUntil(lock, deadline, "the decisions of the rendezvous",
                       [this, ping = asked_] { return answered_ >= ping || rootClosed(); }));
  return status_;
}

Status JoinedControl::status() const {
  // acquire: pairs with the release in fail().
  if (!has_news_.load(std::memory_order_acquire)) return {};
  const Lock lock(mutex_);
  return status_;
}

bool JoinedControl::isOver(int64_t within_ms) const {
  // acquire: as in status().
  if (has_news_.load(std::memory_order_acquire) || within_ms <= 0) return has_news_;
  Lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(within_ms), [this] { return over(); });
}

int JoinedControl::failedRank() const {
  const Lock lock(mutex_);
  return failed_rank_;
}

std::string JoinedControl::rootName() const {
  if (!welcome_) return "the process that hosts the rendezvous at " + where_ + " (under a launcher rank 0)";
  const std::string process = welcome_->host.toString();
  return welcome_->host_rank >= 0
             ? formatString("rank %d's process (%s), which hosts the rendezvous,", welcome_->host_rank,
                            process.c_str())
             : formatString("the process (%s) that hosts the rendezvous", process.c_str());
}

std::string JoinedControl::describeRank(int rank) const {
  const Lock lock(mutex_);
  if (!welcome_ || rank < 0 || rank >= options_.ranks) return formatString("rank %d", rank);
  return formatString("rank %d (%s)", rank, welcome_->ranks[static_cast<size_t>(rank)].toString().c_str());
}

Status JoinedControl::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  // release: pairs with the acquire in status().
  has_news_.store(true, std::memory_order_release);
  changed_.notify_all();
  return status_;
}

// A failure that the other ranks are to learn. Where memory has run out the thread announces it, since it may find some later.
Status JoinedControl::giveUp(Status why) {
  const auto announce = [&]() -> Status {
    send(AnnounceMessage{why.code(), why.message()});
    return {};
  };
  announcement_ = Announcement::kSent;
  if (!finished() && !withoutExceptions(announce).ok()) announcement_ = Announcement::kOwed;
  wakeThread();
  return fail(std::move(why));
}

// Handles a broken channel after its last messages were read.
void JoinedControl::judgeChannel(const Status& moved) {
  if (mayReturn()) {
    options_.log.warn("control", "rank %d: %s; returning to the rendezvous", options_.rank,
                      moved.message().c_str());
    if (!isAway(state_)) back_by_ = Deadline::after(*options_.clock, kReturnTryMs);
    return note(ConnectionEvent::kBroke);
  }
  if (channel_->closed() || channel_->broke()) return loseRoot();
  note(ConnectionEvent::kEnded);
  blameRoot(makeStatus(Code::kRemoteError, "%s sent an invalid message: %s", rootName().c_str(),
                       moved.message().c_str()));
}

// An error means that the rendezvous violated the protocol.
Status JoinedControl::readMessages(int64_t now_ns) {
  while (const std::optional<std::vector<std::byte>> bytes = channel_->receive()) {
    liveness_.heard(0, now_ns);
    Result<RootMessage> message = decodeRootMessage(*bytes);
    if (!message.ok())
      return fail(
          makeStatus(Code::kRemoteError, "%s: %s", rootName().c_str(), message.status().message().c_str()));
    if (isCounted(message.value())) journal_.noteReceived();
    HORING_TRY(handle(message.take()));
  }
  return {};
}

// How long to wait for the verdict that the rendezvous reaches at `deadline`. Its clock does not count time in which its process is stopped
// (base/waking_clock.h), so on a very busy machine the verdict may be late; heartbeats show that the rendezvous still runs.
Deadline JoinedControl::judgedBy(Deadline deadline) const {
  constexpr int64_t kBusyMs = 8000;
  if (options_.heartbeat_ms == 0) return deadline;
  return Deadline::after(*options_.clock, deadline.remainingMs() + kBusyMs);
}

template <typename Predicate>
Status JoinedControl::waitUntil(Lock& lock, Deadline deadline, const char* what, Predicate done) {
  const WaitLimit limit{Deadline::after(*options_.clock, deadline.remainingMs() + kVerdictMs),
                        options_.abort};
  while (!done()) {
    HORING_TRY(status_);
    // Checked only now: the awaited answer and the Closing message may arrive together.
    if (rootClosed())
      return fail(makeStatus(Code::kRemoteError, "%s closed it while rank %d waited for %s",
                             rootName().c_str(), options_.rank, what));
    if (limit.aborted())
      return giveUp(
          makeStatus(Code::kInvalidUsage, "rank %d was aborted while it waited for %s", options_.rank, what));
    if (limit.over())
      return giveUp(makeStatus(Code::kTimeout, "rank %d timed out waiting for %s: %s does not answer",
                               options_.rank, what, rootName().c_str()));
    const int wait_ms = std::min(limit.deadline.remainingMs(), options_.abort ? kAbortCheckMs : kPollMs);
    changed_.wait_for(lock, std::chrono::milliseconds(wait_ms));
  }
  return {};
}

Status JoinedControl::arrive(Deadline deadline) {
  Lock lock(mutex_);
  const int64_t now_ns = options_.clock->nowNs();
  // The error names the whole timeout, which is the value that the user set.
  const auto timeout_ms = static_cast<uint32_t>(std::clamp<int64_t>(options_.timeout_ms, 0, INT32_MAX));
  const auto left_ms = static_cast<uint32_t>(deadline.remainingMs());
  send(HelloMessage{.rank = options_.rank,
                    .ranks = options_.ranks,
                    .timeout_ms = timeout_ms,
                    .process = thisProcess(),
                    .secret = secret_,
                    .spent_ms = timeout_ms - std::min(left_ms, timeout_ms)});
  if (options_.heartbeat_ms > 0) {
    liveness_.watch(0, options_.heartbeat_ms, now_ns);
    next_beat_ns_ = now_ns;
    wakeThread();
  }
  return waitUntil(lock, judgedBy(deadline), "all ranks to arrive", [this] { return welcome_.has_value(); });
}

Result<std::vector<std::vector<std::byte>>> JoinedControl::allGather(std::span<const std::byte> mine,
                                                                     Deadline deadline,
                                                                     std::string_view what) {
  Lock lock(mutex_);
  HORING_TRY(status_);
  if (mine.size() > kMaxGatherBytes)
    return fail(makeStatus(Code::kInvalidArgument,
                           "rank %d gave %zu bytes to an exchange, which takes at most %zu", options_.rank,
                           mine.size(), kMaxGatherBytes));
  if (left_ || rootClosed())
    return fail(makeStatus(Code::kInvalidUsage, "rank %d began exchange %llu after %s", options_.rank,
                           static_cast<unsigned long long>(exchange_),
                           left_ ? "it had left" : "the rendezvous was closed"));
  send(GatherMessage{exchange_,
                     static_cast<uint32_t>(deadline.remainingMs()),
                     {mine.begin(), mine.end()},
                     std::string(what)});
  ++exchange_;
  HORING_TRY(waitUntil(lock, judgedBy(deadline), "an exchange with all ranks",
                       [this] { return gathered_.has_value(); }));
  return std::exchange(gathered_, std::nullopt).value();
}

void JoinedControl::announceError(const Status& error) {
  const Lock lock(mutex_);
  if (left_ || error.ok()) return;
  // An error received from the rendezvous is known to the other ranks already.
  if (status_.ok()) [[maybe_unused]]
    const Status why = giveUp(error);
}

void JoinedControl::answerFrom(const CallLog& calls, const CallLog& launches) {
  const Lock lock(mutex_);
  calls_ = &calls;
  launches_ = &launches;
  next_pace_ns_ = options_.clock->nowNs();
  wakeThread();
}

void JoinedControl::onFailure(std::function<void(const Status& error)> action) {
  const Lock lock(mutex_);
  on_failure_ = std::move(action);
}

void JoinedControl::onQuestion(std::function<bool()> action) {
  const Lock lock(mutex_);
  on_question_ = std::move(action);
}

void JoinedControl::reportState(const RankState& state) {
  const Lock lock(mutex_);
  if (!over()) send(state);
}

void JoinedControl::reportCall(const CallReport& report) {
  const Lock lock(mutex_);
  if (!over()) send(report);
}

void JoinedControl::leave() {
  {
    const Lock lock(mutex_);
    if (!finished()) send(GoodbyeMessage{});
    left_ = true;
    wakeThread();
  }
  // The other end closes after it has read the goodbye; closing earlier could discard it (TCP reset).
  stopServing();
}

}  // namespace horing
