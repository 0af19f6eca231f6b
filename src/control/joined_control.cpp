#include "control/joined_control.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "control/root_connection.h"
#include "control/root_service.h"

namespace horing {

namespace {

// The rendezvous ends an exchange at the deadline and names who is missing; it gets this long to say so.
constexpr int64_t kVerdictMs = 2000;
constexpr int64_t kGoodbyeMs = 1000;
// What others wait for may take several rounds with them, as making a connection does.
constexpr int64_t kServiceNs = 50'000'000, kServicePauseNs = 1'000'000;
constexpr int kPollMs = 1000;
constexpr int kAbortCheckMs = 50;
// One attempt to return. The kernel would ask a machine that does not answer again only after a second.
constexpr int64_t kReturnAttemptMs = 400;
constexpr int kReturnPauseMs = 20;

SharedMessage shared(const RankMessage& message) {
  return std::make_shared<const std::vector<std::byte>>(encodeMessage(message));
}

}  // namespace

Status JoinedControl::begin() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  news_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid() || !news_.valid())
    return systemError(errno, "rank %d could not make its descriptors", options_.rank);
  return thread_.start("the control connection", [this] { serve(); });
}

JoinedControl::~JoinedControl() {
  stopServing();
}

void JoinedControl::stopServing() {
  thread_.end([this] {
    Lock lock(mutex_);
    awaitLastWord(lock);
    stop_ = true;
    wakeThread();
  });
}

// A connection that holds has kGoodbyeMs for it; one that breaks may be replaced before. Bounded however often it breaks.
void JoinedControl::awaitLastWord(Lock& lock) {
  const Deadline latest = Deadline::after(*options_.clock, kReturnTryMs + kGoodbyeMs);
  Deadline here_by = Deadline::after(*options_.clock, kGoodbyeMs);
  while (!stop_ && owesWord() && !latest.passed() && !here_by.passed()) {
    changed_.wait_for(lock, std::chrono::milliseconds(kAbortCheckMs));
    if (away_) here_by = Deadline::after(*options_.clock, kGoodbyeMs);
  }
}

void JoinedControl::wakeThread() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

// The thread: also after an error, since its cause may still have to be told, and there may be a goodbye to say.
void JoinedControl::serve() {
  Lock lock(mutex_);
  while (!stop_ && !finished()) {
    const auto turned = withoutExceptions([&] { turn(lock); });
    if (!turned.ok()) runOutOfMemory(lock);
  }
  // The rendezvous waits for a sign that its last word was heard.
  if (root_closed_) channel_->hangUp();
  changed_.notify_all();
  runFailureAction(lock);
}

// What could not be done now may be possible later; this rank is lost all the same, and who waits for it hears so, from it or, where it
// cannot even say that, from the rendezvous, which hears nothing more.
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
  if (away_ && channel_->broke()) comeBack(lock);
  if (stop_ || finished()) return;
  pollfd items[] = {{channel_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  if (channel_->wantsWrite()) items[0].events |= POLLOUT;
  const int64_t now_ns = options_.clock->nowNs();
  const int64_t wait_ns = wakeNs(now_ns) - now_ns;
  const int64_t most_ms = away_ ? kAbortCheckMs : kPollMs;
  const int wait_ms = static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, most_ms));
  lock.unlock();
  [[maybe_unused]] const int ready = ::poll(items, 2, wait_ms);
  uint64_t rings = 0;
  if (items[1].revents) [[maybe_unused]]
    const ssize_t drained = ::read(wake_.get(), &rings, sizeof rings);
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
  if (std::exchange(was_asked_, false)) serves_until_ns_ = now_ns + kServiceNs;
  if (!on_question_ || now_ns >= serves_until_ns_) return;
  auto action = std::move(on_question_);
  lock.unlock();
  [[maybe_unused]] const Status done = withoutExceptions([&] { action(); });
  lock.lock();
  on_question_ = std::move(action);
}

int64_t JoinedControl::wakeNs(int64_t now_ns) const {
  const int64_t service_ns = on_question_ && now_ns < serves_until_ns_ ? now_ns + kServicePauseNs : INT64_MAX;
  return beats() ? std::min({service_ns, next_beat_ns_, liveness_.nextLookNs()}) : service_ns;
}

void JoinedControl::takeChannel(std::unique_ptr<ControlChannel> channel) {
  channel_ = std::move(channel);
  channel_->allowMessageBytes(maxRootMessageBytes(std::clamp(options_.ranks, 1, kMaxRanks)));
}

// Only who beats says what it has heard, and can go on from there. After an error that the others know there is no need.
bool JoinedControl::mayReturn() const {
  return channel_->broke() && welcome_ && welcome_->return_port != 0 && options_.heartbeat_ms > 0 &&
         (status_.ok() || untold_);
}

// Connects again, and says what this rank has heard; the rendezvous' answer ends being away. Also when this rank is aborted:
// the others are to hear of that.
void JoinedControl::comeBack(Lock& lock) {
  while (!stop_ && !finished()) {
    const int64_t left_ms = std::min<int64_t>(kReturnAttemptMs, back_by_->remainingMs());
    lock.unlock();
    Attempt how = Attempt::kFailed;
    Result<std::unique_ptr<ControlChannel>> connected =
        connectOnce(return_to_, key_, {Deadline::after(*options_.clock, left_ms), nullptr}, &how);
    if (!connected.ok()) ::poll(nullptr, 0, kReturnPauseMs);
    lock.lock();
    if (connected.ok()) {
      takeChannel(connected.take());
      channel_->send(shared(ReturnMessage{options_.rank, secret_, journal_.heard()}));
      return;
    }
    options_.log.info("control", "cannot return to the rendezvous yet: %s",
                      connected.status().message().c_str());
    if (how == Attempt::kRefusedHere) {
      gone_ = true;
      [[maybe_unused]] const Status failed = fail(connected.status());
    } else if (back_by_->passed()) {
      loseRoot();
    }
  }
}

// Who has left does not need it any more.
void JoinedControl::loseRoot() {
  gone_ = true;
  if (!left_)
    blameRoot(
        makeStatus(Code::kRemoteError, "%s is lost: it ended, or the network to it did", rootName().c_str()));
}

void JoinedControl::blameRoot(Status status) {
  if (status_.ok() && welcome_) failed_rank_ = welcome_->host_rank;
  [[maybe_unused]] const Status failed = fail(std::move(status));
}

void JoinedControl::progress(int64_t now_ns) {
  if (unsaid_ && !finished()) send(AnnounceMessage{status_.code(), status_.message()});
  unsaid_ = false;
  const Status moved = channel_->progress();
  // Who breaks the protocol is not listened to any more.
  if (!readMessages(now_ns).ok()) gone_ = true;
  if (!moved.ok() && !finished()) judgeChannel(moved);
  if (!finished() && away_ && back_by_->passed()) loseRoot();
  if (!finished() && beats()) beat(now_ns);
  changed_.notify_all();
}

void JoinedControl::tellNews() {
  // release: pairs with the acquire in status().
  if (news_told_.exchange(true, std::memory_order_release)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(news_.get(), &one, sizeof one);
}

void JoinedControl::beat(int64_t now_ns) {
  if (!liveness_.look(now_ns).empty()) {
    gone_ = true;
    return blameRoot(
        makeStatus(Code::kRemoteError,
                   "%s has not been heard of for %lld ms: stopped (SIGSTOP, a debugger), on a machine that "
                   "hangs, or the network between it and rank %d is cut. HORING_HEARTBEAT_MS=0 turns this "
                   "watch off",
                   rootName().c_str(), static_cast<long long>(liveness_.patienceMs(0)), options_.rank));
  }
  if (now_ns < next_beat_ns_) return;
  next_beat_ns_ = now_ns + options_.heartbeat_ms * 1'000'000;
  send(BeatMessage{static_cast<uint32_t>(options_.heartbeat_ms), journal_.heard()});
}

// What the socket does not take now the thread sends later. Goodbye is the last word.
void JoinedControl::send(const RankMessage& message) {
  if (left_) return;
  SharedMessage bytes = shared(message);
  if (isCounted(message) && options_.heartbeat_ms > 0) journal_.keep(bytes);
  if (away_) return;
  channel_->send(std::move(bytes));
  [[maybe_unused]] const Status sent = channel_->flush();
  if (channel_->wantsWrite()) wakeThread();
}

bool JoinedControl::isBehind() const {
  const Lock lock(mutex_);
  pollfd entry{channel_->fd(), POLLIN, 0};
  return !over() && (away_ || ::poll(&entry, 1, 0) != 0);
}

// A rendezvous that closes has said all it had to say.
Status JoinedControl::catchUp(Deadline deadline) {
  Lock lock(mutex_);
  if (over()) return status_;
  send(PingMessage{++asked_});
  HORING_TRY(waitUntil(lock, deadline, "what the others decided",
                       [this, ping = asked_] { return answered_ >= ping || root_closed_; }));
  return status_;
}

Status JoinedControl::status() const {
  // acquire: pairs with the release in tellNews().
  if (!news_told_.load(std::memory_order_acquire)) return {};
  const Lock lock(mutex_);
  return status_;
}

int JoinedControl::fd() const {
  return news_told_.load(std::memory_order_acquire) ? -1 : news_.get();
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
  tellNews();
  return status_;
}

// For a reason that the others are to hear. Where memory has run out the thread says it, which may find some.
Status JoinedControl::giveUp(Status why) {
  const auto announce = [&]() -> Status {
    send(AnnounceMessage{why.code(), why.message()});
    return {};
  };
  if (!finished()) unsaid_ = !withoutExceptions(announce).ok();
  announced_ = untold_ = true;
  wakeThread();
  return fail(std::move(why));
}

// What a broken channel means, once its last messages have been read.
void JoinedControl::judgeChannel(const Status& moved) {
  if (mayReturn()) {
    options_.log.warn("control", "rank %d: %s; returning to the rendezvous", options_.rank,
                      moved.message().c_str());
    if (!away_) back_by_ = Deadline::after(*options_.clock, kReturnTryMs);
    away_ = true;
    return;
  }
  if (channel_->closed() || channel_->broke()) return loseRoot();
  gone_ = true;
  blameRoot(makeStatus(Code::kRemoteError, "%s sent what cannot be trusted: %s", rootName().c_str(),
                       moved.message().c_str()));
}

// An error: the rendezvous broke the protocol.
Status JoinedControl::readMessages(int64_t now_ns) {
  while (const std::optional<std::vector<std::byte>> bytes = channel_->receive()) {
    liveness_.heard(0, now_ns);
    Result<RootMessage> message = decodeRootMessage(*bytes);
    if (!message.ok())
      return fail(
          makeStatus(Code::kRemoteError, "%s: %s", rootName().c_str(), message.status().message().c_str()));
    if (isCounted(message.value())) journal_.noteHeard();
    HORING_TRY(handle(message.take()));
  }
  return {};
}

Status JoinedControl::handle(RootMessage message) {
  if (WelcomeMessage* welcome = std::get_if<WelcomeMessage>(&message)) return handleWelcome(*welcome);
  if (GatheredMessage* gathered = std::get_if<GatheredMessage>(&message)) return handleGathered(*gathered);
  if (const FailureMessage* failure = std::get_if<FailureMessage>(&message)) {
    untold_ = false;
    if (status_.ok()) failed_rank_ = failure->rank < options_.ranks ? failure->rank : -1;
    [[maybe_unused]] const Status failed = fail(Status(failure->code, failure->reason));
    return {};
  }
  if (const ReturnedMessage* returned = std::get_if<ReturnedMessage>(&message))
    return handleReturned(*returned);
  if (const BeatEchoMessage* echo = std::get_if<BeatEchoMessage>(&message)) {
    if (!journal_.acknowledge(echo->heard))
      return fail(makeStatus(Code::kRemoteError, "%s has heard more than was said", rootName().c_str()));
  }
  if (const CallInquiry* inquiry = std::get_if<CallInquiry>(&message)) answer(*inquiry);
  if (const StateInquiry* inquiry = std::get_if<StateInquiry>(&message)) answer(*inquiry);
  if (const PongMessage* pong = std::get_if<PongMessage>(&message)) answered_ = pong->number;
  if (std::holds_alternative<ClosingMessage>(message)) {
    root_closed_ = true;
    tellNews();
  }
  return {};
}

Status JoinedControl::handleWelcome(WelcomeMessage& welcome) {
  if (welcome_ || welcome.ranks.size() != static_cast<size_t>(options_.ranks) ||
      welcome.host_rank >= options_.ranks)
    return fail(makeStatus(Code::kRemoteError, "%s sent a welcome for %zu ranks", rootName().c_str(),
                           welcome.ranks.size()));
  welcome_ = std::move(welcome);
  return_to_ = peerEndpoint(channel_->fd());
  return_to_.port = welcome_->return_port;
  return {};
}

Status JoinedControl::handleReturned(const ReturnedMessage& returned) {
  if (!away_ || returned.heard > journal_.said())
    return fail(makeStatus(Code::kRemoteError, "%s does not go on where it was", rootName().c_str()));
  if (!journal_.sayRest(returned.heard, *channel_))
    return fail(makeStatus(
        Code::kRemoteError,
        "rank %d said more than %zu messages while its connection to the rendezvous was broken, and "
        "cannot say all of them again",
        options_.rank, kMaxJournal));
  away_ = false;
  if (answered_ < asked_) send(PingMessage{asked_});  // pings are not said again of themselves
  options_.log.info("control", "rank %d is back at the rendezvous", options_.rank);
  // Should the connection have broken again, then progress() sees that next; it is nothing that the rendezvous did wrong.
  [[maybe_unused]] const Status flushed = channel_->flush();
  return {};
}

Status JoinedControl::handleGathered(GatheredMessage& gathered) {
  if (gathered_ || gathered.exchange + 1 != exchange_ ||
      gathered.parts.size() != static_cast<size_t>(options_.ranks))
    return fail(makeStatus(Code::kRemoteError, "%s sent exchange %llu of %zu parts", rootName().c_str(),
                           static_cast<unsigned long long>(gathered.exchange), gathered.parts.size()));
  gathered_ = std::move(gathered.parts);
  return {};
}

template <typename Predicate>
Status JoinedControl::waitUntil(Lock& lock, Deadline deadline, const char* what, Predicate done) {
  const Patience patience{Deadline::after(*options_.clock, deadline.remainingMs() + kVerdictMs),
                          options_.abort};
  while (!done()) {
    HORING_TRY(status_);
    // Only now: what was waited for and the closing may arrive together.
    if (root_closed_)
      return fail(makeStatus(Code::kRemoteError, "%s closed it while rank %d waited for %s",
                             rootName().c_str(), options_.rank, what));
    if (patience.aborted())
      return giveUp(
          makeStatus(Code::kInvalidUsage, "rank %d was aborted while it waited for %s", options_.rank, what));
    if (patience.over())
      return giveUp(makeStatus(Code::kTimeout, "rank %d waited in vain for %s: %s does not answer",
                               options_.rank, what, rootName().c_str()));
    const int wait_ms = std::min(patience.deadline.remainingMs(), options_.abort ? kAbortCheckMs : kPollMs);
    changed_.wait_for(lock, std::chrono::milliseconds(wait_ms));
  }
  return {};
}

Status JoinedControl::arrive(Deadline deadline) {
  Lock lock(mutex_);
  const int64_t now_ns = options_.clock->nowNs();
  // An error names the whole time, which is what the user has set.
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
  return waitUntil(lock, deadline, "all ranks to arrive", [this] { return welcome_.has_value(); });
}

Result<std::vector<std::vector<std::byte>>> JoinedControl::allGather(std::span<const std::byte> mine,
                                                                     Deadline deadline,
                                                                     std::string_view what) {
  Lock lock(mutex_);
  HORING_TRY(status_);
  if (mine.size() > kMaxGatherBytes)
    return fail(makeStatus(Code::kInvalidArgument,
                           "rank %d gave %zu bytes to an exchange: at most %zu are possible", options_.rank,
                           mine.size(), kMaxGatherBytes));
  if (left_ || root_closed_)
    return fail(makeStatus(Code::kInvalidUsage, "rank %d began exchange %llu after %s", options_.rank,
                           static_cast<unsigned long long>(exchange_),
                           left_ ? "it had left" : "the rendezvous was closed"));
  send(GatherMessage{exchange_,
                     static_cast<uint32_t>(deadline.remainingMs()),
                     {mine.begin(), mine.end()},
                     std::string(what)});
  ++exchange_;
  HORING_TRY(
      waitUntil(lock, deadline, "an exchange with all ranks", [this] { return gathered_.has_value(); }));
  return std::exchange(gathered_, std::nullopt).value();
}

void JoinedControl::announceError(const Status& error) {
  const Lock lock(mutex_);
  if (announced_ || left_ || error.ok()) return;
  // What it learned from the others they know already.
  if (status_.ok()) [[maybe_unused]]
    const Status why = giveUp(error);
  announced_ = true;
}

void JoinedControl::answerFrom(const CallLog& calls, const CallLog& launches) {
  const Lock lock(mutex_);
  calls_ = &calls;
  launches_ = &launches;
}

void JoinedControl::onFailure(std::function<void(const Status& error)> action) {
  const Lock lock(mutex_);
  on_failure_ = std::move(action);
}

void JoinedControl::onQuestion(std::function<void()> action) {
  const Lock lock(mutex_);
  on_question_ = std::move(action);
}

void JoinedControl::answer(const CallInquiry& inquiry) {
  was_asked_ = true;
  CallReport report;
  report.sequence = inquiry.sequence;
  if (calls_) report = (inquiry.sequence < kFirstLaunch ? calls_ : launches_)->report(inquiry.sequence);
  report.round = inquiry.round;
  send(report);
}

void JoinedControl::answer(const StateInquiry& inquiry) {
  was_asked_ = true;
  RankState state;
  if (calls_) state = calls_->state(options_.clock->nowNs());
  state.round = inquiry.round;
  send(state);
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
  // The other end closes when it has read the goodbye; closing earlier could take the word back (TCP reset).
  stopServing();
}

}  // namespace horing
