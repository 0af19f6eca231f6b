#include "comm/control.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/fork_guard.h"
#include "base/service_thread.h"
#include "comm/control_messages.h"
#include "comm/liveness.h"
#include "comm/root_connection.h"
#include "comm/root_service.h"

namespace horing {

namespace {

// The rendezvous ends an exchange at the deadline and names who is missing; it gets this long to say so.
constexpr int64_t kVerdictMs = 2000;
constexpr int64_t kGoodbyeMs = 1000;
constexpr int kPollMs = 1000;
constexpr int kAbortCheckMs = 50;

SharedMessage shared(const RankMessage& message) {
  return std::make_shared<const std::vector<std::byte>>(encodeMessage(message));
}

// Every member function takes mutex_, but for those whose comment says that it is held.
class JoinedControl final : public Control {
 public:
  JoinedControl(const JoinOptions& options, std::string where, std::unique_ptr<ControlChannel> channel)
      : options_(options), where_(std::move(where)), channel_(std::move(channel)) {
    channel_->allowMessageBytes(maxRootMessageBytes(std::clamp(options.ranks, 1, kMaxRanks)));
  }
  ~JoinedControl() override;

  // Starts the thread.
  Status begin();
  Status arrive(Deadline deadline);

  int rank() const override { return options_.rank; }
  int ranks() const override { return options_.ranks; }
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                        Deadline deadline) override;
  Status status() const override;
  int fd() const override;
  int failedRank() const override;
  void announceError(const Status& error) override;
  void leave() override;
  void answerFrom(const CallLog& calls) override;
  void onFailure(std::function<void(const Status& error)> action) override;
  void reportCall(const CallReport& report) override;
  std::string describeRank(int rank) const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  void stopServing();
  // mutex_ is held in all that follow.
  bool over() const { return root_closed_ || !status_.ok(); }
  int64_t wakeNs() const;
  void wakeThread() const;
  void progress(int64_t now_ns);
  void tellNews();
  void beat(int64_t now_ns);
  void send(const RankMessage& message);
  Status fail(Status status);
  Status judgeChannel(const Status& moved);
  Status readMessages(int64_t now_ns);
  Status handle(RootMessage message);
  Status handleWelcome(WelcomeMessage& welcome);
  Status handleGathered(GatheredMessage& gathered);
  void answer(const CallInquiry& inquiry);
  template <typename Predicate>
  Status waitUntil(Lock& lock, Deadline deadline, const char* what, Predicate done);
  std::string rootName() const;

  JoinOptions options_;
  std::string where_;
  ForkGuard fork_guard_;
  Fd wake_;  // written to make the thread look again
  Fd news_;  // written once, when over() becomes true
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // something that a waitUntil() may wait for
  std::atomic<bool> news_told_{false};
  bool stop_ = false;
  std::unique_ptr<ControlChannel> channel_;
  Liveness liveness_;  // of the rendezvous, member 0
  int64_t next_beat_ns_ = INT64_MAX;
  Status status_;
  int failed_rank_ = -1;
  bool announced_ = false;
  bool left_ = false;
  bool root_closed_ = false;

  const CallLog* calls_ = nullptr;
  std::function<void(const Status&)> on_failure_;
  std::optional<WelcomeMessage> welcome_;
  uint64_t exchange_ = 1;  // the next one
  std::optional<std::vector<std::vector<std::byte>>> gathered_;
};

Status JoinedControl::begin() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  news_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid() || !news_.valid())
    return systemError(errno, "rank %d could not make its descriptors (ulimit -n)", options_.rank);
  HORING_ASSIGN(thread_, startServiceThread("the control connection", [this] { serve(); }));
  return {};
}

JoinedControl::~JoinedControl() {
  // A forked child has a copy of this object, but not the thread.
  if (fork_guard_.isForkedChild()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  stopServing();
}

void JoinedControl::stopServing() {
  {
    const Lock lock(mutex_);
    stop_ = true;
    wakeThread();
  }
  if (thread_.joinable()) thread_.join();
}

void JoinedControl::wakeThread() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

// The thread: ends when there is nothing more to hear.
void JoinedControl::serve() {
  Lock lock(mutex_);
  while (!stop_ && !over()) {
    pollfd items[] = {{channel_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (channel_->wantsWrite()) items[0].events |= POLLOUT;
    const int64_t wait_ns = wakeNs() - options_.clock->nowNs();
    const int wait_ms = static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, kPollMs));
    lock.unlock();
    [[maybe_unused]] const int ready = ::poll(items, 2, wait_ms);
    uint64_t rings = 0;
    if (items[1].revents) [[maybe_unused]]
      const ssize_t drained = ::read(wake_.get(), &rings, sizeof rings);
    lock.lock();
    if (!stop_ && status_.ok()) progress(options_.clock->nowNs());
  }
  if (status_.ok() || !on_failure_) return;
  const auto action = std::move(on_failure_);
  const Status error = status_;
  lock.unlock();
  action(error);
}

int64_t JoinedControl::wakeNs() const {
  return std::min(next_beat_ns_, liveness_.nextLookNs());
}

void JoinedControl::progress(int64_t now_ns) {
  const Status moved = channel_->progress();
  [[maybe_unused]] const Status heard = readMessages(now_ns);
  if (!over()) [[maybe_unused]]
    const Status judged = judgeChannel(moved);
  if (!over()) beat(now_ns);
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
    if (welcome_) failed_rank_ = welcome_->host_rank;
    [[maybe_unused]] const Status failed = fail(
        makeStatus(Code::kRemoteError,
                   "%s has not been heard of for %lld ms: stopped (SIGSTOP, a debugger), on a machine that "
                   "hangs, or the network between it and rank %d is cut. HORING_HEARTBEAT_MS=0 turns this "
                   "watch off",
                   rootName().c_str(), static_cast<long long>(liveness_.patienceMs(0)), options_.rank));
    return;
  }
  if (now_ns < next_beat_ns_) return;
  next_beat_ns_ = now_ns + options_.heartbeat_ms * 1'000'000;
  send(BeatMessage{static_cast<uint32_t>(options_.heartbeat_ms)});
}

// What the socket does not take now the thread sends later.
void JoinedControl::send(const RankMessage& message) {
  channel_->send(shared(message));
  [[maybe_unused]] const Status sent = channel_->flush();
  if (channel_->wantsWrite()) wakeThread();
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

// What a broken channel means, once its last messages have been read.
Status JoinedControl::judgeChannel(const Status& moved) {
  if (moved.ok() || root_closed_ || !status_.ok()) return status_;
  if (welcome_) failed_rank_ = welcome_->host_rank;
  if (channel_->closed())
    return fail(
        makeStatus(Code::kRemoteError, "%s is lost: it ended, or the network to it did", rootName().c_str()));
  return fail(makeStatus(Code::kRemoteError, "%s sent what cannot be trusted: %s", rootName().c_str(),
                         moved.message().c_str()));
}

Status JoinedControl::readMessages(int64_t now_ns) {
  while (const std::optional<std::vector<std::byte>> bytes = channel_->receive()) {
    liveness_.heard(0, now_ns);
    Result<RootMessage> message = decodeRootMessage(*bytes);
    if (!message.ok())
      return fail(
          makeStatus(Code::kRemoteError, "%s: %s", rootName().c_str(), message.status().message().c_str()));
    HORING_TRY(handle(message.take()));
  }
  return status_;
}

Status JoinedControl::handle(RootMessage message) {
  if (WelcomeMessage* welcome = std::get_if<WelcomeMessage>(&message)) return handleWelcome(*welcome);
  if (GatheredMessage* gathered = std::get_if<GatheredMessage>(&message)) return handleGathered(*gathered);
  if (const FailureMessage* failure = std::get_if<FailureMessage>(&message)) {
    if (status_.ok()) failed_rank_ = failure->rank < options_.ranks ? failure->rank : -1;
    return fail(Status(failure->code, failure->reason));
  }
  if (const CallInquiry* inquiry = std::get_if<CallInquiry>(&message)) answer(*inquiry);
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
      return fail(
          makeStatus(Code::kInvalidUsage, "rank %d was aborted while it waited for %s", options_.rank, what));
    if (patience.over())
      return fail(makeStatus(Code::kTimeout, "rank %d waited in vain for %s: %s does not answer",
                             options_.rank, what, rootName().c_str()));
    const int wait_ms = std::min(patience.deadline.remainingMs(), options_.abort ? kAbortCheckMs : kPollMs);
    changed_.wait_for(lock, std::chrono::milliseconds(wait_ms));
  }
  return {};
}

Status JoinedControl::arrive(Deadline deadline) {
  Lock lock(mutex_);
  const int64_t now_ns = options_.clock->nowNs();
  const auto timeout_ms = static_cast<uint32_t>(deadline.remainingMs());
  send(HelloMessage{options_.rank, options_.ranks, timeout_ms, thisProcess()});
  if (options_.heartbeat_ms > 0) {
    liveness_.watch(0, options_.heartbeat_ms, now_ns);
    next_beat_ns_ = now_ns;
    wakeThread();
  }
  return waitUntil(lock, deadline, "all ranks to arrive", [this] { return welcome_.has_value(); });
}

Result<std::vector<std::vector<std::byte>>> JoinedControl::allGather(std::span<const std::byte> mine,
                                                                     Deadline deadline) {
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
  send(GatherMessage{exchange_, static_cast<uint32_t>(deadline.remainingMs()), {mine.begin(), mine.end()}});
  ++exchange_;
  HORING_TRY(
      waitUntil(lock, deadline, "an exchange with all ranks", [this] { return gathered_.has_value(); }));
  return std::exchange(gathered_, std::nullopt).value();
}

void JoinedControl::announceError(const Status& error) {
  const Lock lock(mutex_);
  if (announced_ || left_ || error.ok()) return;
  announced_ = true;
  // What it learned from the others they know already.
  if (!status_.ok()) return;
  if (!root_closed_) send(AnnounceMessage{error.code(), error.message()});
  status_ = error;
  tellNews();
  wakeThread();
}

void JoinedControl::answerFrom(const CallLog& calls) {
  const Lock lock(mutex_);
  calls_ = &calls;
}

void JoinedControl::onFailure(std::function<void(const Status& error)> action) {
  const Lock lock(mutex_);
  on_failure_ = std::move(action);
}

void JoinedControl::answer(const CallInquiry& inquiry) {
  CallReport report;
  report.sequence = inquiry.sequence;
  if (calls_) report = calls_->report(inquiry.sequence);
  report.round = inquiry.round;
  send(report);
}

void JoinedControl::reportCall(const CallReport& report) {
  const Lock lock(mutex_);
  if (!left_ && !over()) send(report);
}

void JoinedControl::leave() {
  stopServing();
  const Lock lock(mutex_);
  if (left_) return;
  left_ = true;
  if (root_closed_ || channel_->closed()) return;
  channel_->send(shared(GoodbyeMessage{}));
  // The other end closes when it has read the goodbye; closing earlier could take the word back (TCP reset).
  const Patience patience{Deadline::after(*options_.clock, kGoodbyeMs), nullptr};
  while (!channel_->closed() && channel_->status().ok() && !patience.over()) {
    [[maybe_unused]] const Status moved = waitAndProgress(*channel_, patience, kPollMs);
  }
}

}  // namespace

Result<std::unique_ptr<Control>> Control::join(const JoinOptions& options) {
  HORING_CHECK(options.clock != nullptr);
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(options.id));
  const Deadline deadline = Deadline::after(*options.clock, options.timeout_ms);
  Result<std::unique_ptr<ControlChannel>> channel =
      connectToRoot(parts, *options.clock, {deadline, options.abort});
  if (!channel.ok())
    return makeStatus(channel.status().code(), "rank %d: %s", options.rank,
                      channel.status().message().c_str());
  auto control = std::make_unique<JoinedControl>(options, parts.roots.front().toString(), channel.take());
  HORING_TRY(control->begin());
  HORING_TRY(control->arrive(deadline));
  options.log.trace("control", "rank %d of %d has joined", options.rank, options.ranks);
  return std::unique_ptr<Control>(std::move(control));
}

}  // namespace horing
