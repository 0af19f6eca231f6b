#include "control/root_thread.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/check.h"

namespace horing {

namespace {

constexpr const char* kSubsystem = "root";
// After a failed arrival latecomers can still ask what happened.
constexpr int64_t kLingerMs = 10'000;
constexpr int64_t kClosingMs = 1000;
constexpr int64_t kLongestTurnMs = 50;  // while it closes
// While somebody has a deadline: a stop shows only by what a wait was too long.
constexpr int64_t kLongestWaitMs = 500;
// Out of file descriptors: accepting again at once would spin.
constexpr int64_t kAcceptPauseMs = 100;
constexpr int kAcceptsPerWake = 64;
constexpr int64_t kLongestBeatMs = 600'000;  // as HORING_HEARTBEAT_MS

constexpr int64_t toNs(int64_t ms) {
  return ms * 1'000'000;
}

Status watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return systemError(errno, "epoll refused a socket");
  return {};
}

}  // namespace

Status RootThread::begin() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid() || !keepSpare())
    return systemError(errno, "the rendezvous could not make its descriptors");
  HORING_TRY(watch(epoll_.get(), wake_.get()));
  HORING_TRY(watch(epoll_.get(), listener_.fd.get()));
  begun_ns_ = clock_.nowNs();
  return thread_.start("the rendezvous", [this] { run(); });
}

RootThread::~RootThread() {
  thread_.end([this] {
    // release: pairs with the acquire in loop().
    stop_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  });
}

bool RootThread::waitFinished(int64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return finished_; });
}

void RootThread::run() {
  const Status ended = withoutExceptions([&] { loop(), close(); });
  // Without memory there is no rendezvous. Connections that end tell every rank so, and that takes none.
  if (!ended.ok()) hangUp();
  const std::lock_guard lock(mutex_);
  finished_ = true;
  ended_.notify_all();
}

void RootThread::loop() {
  while (!stop_.load(std::memory_order_acquire)) {
    const int64_t now_ns = turn(waitMs(clock_.nowNs()));
    judgeSilence(now_ns);
    rendezvous_.tick(now_ns);
    if (const std::string late = rendezvous_.takeLate(now_ns); !late.empty())
      log_.info("root", "still waiting: %s", late.c_str());
    const std::vector<SharedMessage> decided = rendezvous_.takeBroadcasts();
    if (!decided.empty()) listenForReturns();
    deliver(decided);
    answerPings();
    if (over(now_ns)) return;
  }
}

// Waits for something to happen, and deals with it. Returns when that was.
int64_t RootThread::turn(int wait_ms) {
  std::array<epoll_event, 64> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  clock_.woke(wait_ms);
  const int64_t now_ns = clock_.nowNs();
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    if (fd == listener_.fd.get() && listener_.fd.valid()) {
      acceptAll(now_ns);
    } else if (fd != wake_.get()) {
      serve(fd, now_ns);
    }
  }
  expire(now_ns);
  missThoseWhoStayAway(now_ns);
  return now_ns;
}

// Nobody will need this service any more.
bool RootThread::over(int64_t now_ns) {
  if (!rendezvous_.anyoneCame() && !rendezvous_.failed())
    return idle_timeout_ms_ && now_ns - begun_ns_ >= toNs(*idle_timeout_ms_);
  if (rendezvous_.present() > 0) return false;
  if (rendezvous_.complete()) return true;
  // Refused ranks are clients until they have read why.
  if (rendezvous_.everyoneKnows() && clients_.empty()) return true;
  if (failed_ns_ == 0) failed_ns_ = now_ns;
  return now_ns - failed_ns_ >= toNs(kLingerMs);
}

int RootThread::waitMs(int64_t now_ns) const {
  int64_t until_ns = idle_timeout_ms_ ? begun_ns_ + toNs(*idle_timeout_ms_) : INT64_MAX;
  if (rendezvous_.anyoneCame() || rendezvous_.failed()) until_ns = now_ns + toNs(kLingerMs);
  if (failed_ns_ != 0) until_ns = std::min(until_ns, failed_ns_ + toNs(kLingerMs));
  if (accept_again_ns_ != 0) until_ns = std::min(until_ns, accept_again_ns_);
  if (!deadlines_.empty()) until_ns = std::min(until_ns, deadlines_.begin()->first);
  for (auto seat = seats_.begin(); away_ > 0 && seat != seats_.end(); ++seat)
    until_ns = std::min(until_ns, seat->second.missed_from_ns);
  until_ns = std::min({until_ns, liveness_.nextLookNs(), rendezvous_.nextTickNs()});
  const int64_t left_ms = (until_ns - now_ns + 999'999) / 1'000'000;
  const bool has_deadlines = !deadlines_.empty() || away_ > 0 || rendezvous_.nextTickNs() != INT64_MAX;
  return static_cast<int>(std::clamp<int64_t>(left_ms, 0, has_deadlines ? kLongestWaitMs : 60'000));
}

// For one connection more than there can be, whose rank is to hear why.
bool RootThread::keepSpare() {
  if (!spare_.valid()) spare_.reset(::fcntl(wake_.get(), F_DUPFD_CLOEXEC, 0));
  return spare_.valid();
}

void RootThread::acceptAll(int64_t now_ns) {
  [[maybe_unused]] const bool has_spare = keepSpare();
  for (int accepted = 0; accepted < kAcceptsPerWake; ++accepted) {
    Accepted next = acceptNext(listener_.fd);
    if (next.outcome == Accepted::Outcome::kDestroyed) return listenAgain();
    if (next.outcome == Accepted::Outcome::kNone) return;
    if (next.outcome == Accepted::Outcome::kOne) {
      welcomeStranger(std::move(next.fd), next.from, now_ns);
    } else {
      lackDescriptors(now_ns, next.error);
      if (accept_again_ns_ != 0) return;
    }
  }
}

void RootThread::lackDescriptors(int64_t now_ns, int error_number) {
  const Status why =
      systemError(error_number, "the process that hosts the rendezvous cannot take more connections");
  log_.warn(kSubsystem, "%s", why.message().c_str());
  rendezvous_.noteTrouble(why.message());
  // Those that have not said who they are may go soon. Without them it would stay as it is, and not all ranks have come: they are told so
  // one by one.
  if (strangers_ == 0 && spare_.valid()) {
    rendezvous_.cannotTakeMore(why);
    return spare_.reset();
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd.get(), nullptr);
  accept_again_ns_ = now_ns + toNs(kAcceptPauseMs);
}

void RootThread::welcomeStranger(Fd fd, const Endpoint& from, int64_t now_ns) {
  const int number = fd.get();
  tuneControlSocket(number);
  if (strangers_ == kMaxPendingConnections) makeRoom(now_ns);
  auto client = std::make_unique<Client>(std::move(fd), key_, from);
  if (!watch(epoll_.get(), number).ok()) return;
  setDeadline(*client, now_ns);
  ++strangers_;
  clients_.emplace(number, std::move(client));
}

// Of those that have said nothing the oldest goes, for a rank speaks at once; if all have said something, the oldest of all.
void RootThread::makeRoom(int64_t now_ns) {
  const Status why = makeStatus(Code::kTimeout, "too many others came after it before it proved the key");
  std::vector<int> strangers;
  for (const auto& [time, fd] : deadlines_)
    if (clients_.at(fd)->state == Client::State::kStranger) strangers.push_back(fd);
  for (const int fd : strangers) {
    // What it said may not have been read yet, and perhaps makes it a rank, or ends it.
    serve(fd, now_ns);
    if (strangers_ < kMaxPendingConnections) return;
    if (!clients_.at(fd)->channel.heard()) return drop(fd, why);
  }
  drop(strangers.front(), why);
}

void RootThread::setDeadline(Client& client, int64_t now_ns) {
  clearDeadline(client);
  client.deadline_ns = now_ns + toNs(handshake_timeout_ms_);
  deadlines_.emplace(client.deadline_ns, client.channel.fd());
}

void RootThread::clearDeadline(Client& client) {
  deadlines_.erase({client.deadline_ns, client.channel.fd()});
}

void RootThread::serve(int fd, int64_t now_ns) {
  const auto found = clients_.find(fd);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  Status status = client.channel.progress();
  // What it said before it broke still counts: a goodbye, or the reason why it ends.
  while (const std::optional<std::vector<std::byte>> message = client.channel.receive()) {
    const Status handled = handle(client, *message, now_ns);
    if (!handled.ok()) {
      drop(fd, handled);
      return;
    }
  }
  if (!status.ok()) {
    drop(fd, status);
    return;
  }
  watchWrites(client);
}

// An error ends the connection.
Status RootThread::handle(Client& client, std::span<const std::byte> bytes, int64_t now_ns) {
  if (client.state == Client::State::kRefused) return {};
  HORING_ASSIGN(RankMessage message, decodeRankMessage(bytes));
  if (client.state == Client::State::kStranger) {
    const ReturnMessage* back = std::get_if<ReturnMessage>(&message);
    return back ? handleReturn(client, *back, now_ns) : handleHello(client, message, now_ns);
  }
  liveness_.heard(client.rank, now_ns);
  if (isCounted(message)) seats_.at(client.rank).journal.noteHeard();
  if (const BeatMessage* beat = std::get_if<BeatMessage>(&message)) return answerBeat(client, *beat, now_ns);
  if (const PingMessage* ping = std::get_if<PingMessage>(&message)) {
    pings_[client.rank] = ping->number;
    return {};
  }
  if (CallReport* report = std::get_if<CallReport>(&message)) {
    rendezvous_.report(client.rank, std::move(*report), now_ns);
    return {};
  }
  if (RankState* state = std::get_if<RankState>(&message)) {
    rendezvous_.tell(client.rank, std::move(*state), now_ns);
    return {};
  }
  if (GatherMessage* gather = std::get_if<GatherMessage>(&message))
    return rendezvous_.gather(client.rank, std::move(*gather), now_ns);
  if (const AnnounceMessage* announce = std::get_if<AnnounceMessage>(&message)) {
    log_.info(kSubsystem, "rank %d announced: %s", client.rank, announce->reason.c_str());
    rendezvous_.announce(client.rank, *announce);
    return {};
  }
  if (!std::holds_alternative<GoodbyeMessage>(message))
    return makeStatus(Code::kRemoteError, "it said hello twice");
  liveness_.forget(client.rank);
  seats_.erase(client.rank);
  rendezvous_.goodbye(client.rank);
  client.state = Client::State::kRefused;
  return makeStatus(Code::kRemoteError, "it left");
}

Status RootThread::handleHello(Client& client, const RankMessage& message, int64_t now_ns) {
  const HelloMessage* hello = std::get_if<HelloMessage>(&message);
  if (!hello) return makeStatus(Code::kRemoteError, "it did not say hello");
  const Status judged = rendezvous_.hello(*hello, now_ns);
  if (!judged.ok()) {
    refuse(client, judged, now_ns);
    return {};
  }
  log_.trace(kSubsystem, "rank %d of %d came from %s", hello->rank, hello->ranks, client.peer.text().c_str());
  --strangers_;
  clearDeadline(client);
  client.state = Client::State::kJoined;
  client.rank = hello->rank;
  Seat& seat = seats_[hello->rank];
  seat.secret = hello->secret;
  seat.fd = client.channel.fd();
  return {};
}

// Takes the place of the connection that broke, which may not be known here yet.
Status RootThread::handleReturn(Client& client, const ReturnMessage& message, int64_t now_ns) {
  const auto found = seats_.find(message.rank);
  if (found == seats_.end() || found->second.secret != message.secret)
    return makeStatus(Code::kRemoteError, "it is not the rank %d that was here", message.rank);
  Seat& seat = found->second;
  if (message.heard > seat.journal.said())
    return makeStatus(Code::kRemoteError, "rank %d has heard more than was said", message.rank);
  if (!seat.journal.reaches(message.heard)) {
    // It shall not take this for the end of the rendezvous.
    refuse(client,
           makeStatus(Code::kRemoteError,
                      "rank %d came back to the rendezvous and lacks messages that cannot be said again: it "
                      "has %llu of "
                      "%llu, and %zu are kept",
                      message.rank, static_cast<unsigned long long>(message.heard),
                      static_cast<unsigned long long>(seat.journal.said()), seat.journal.kept()),
           now_ns);
    return {};
  }
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(ReturnedMessage{seat.journal.heard()}))));
  HORING_CHECK(seat.journal.sayRest(message.heard, client.channel));
  log_.info(kSubsystem, "rank %d is back from %s", message.rank, client.peer.text().c_str());
  if (seat.fd >= 0) {
    clients_.erase(seat.fd);
  } else {
    --away_;
  }
  --strangers_;
  clearDeadline(client);
  client.state = Client::State::kJoined;
  client.rank = message.rank;
  seat.fd = client.channel.fd();
  seat.missed_from_ns = INT64_MAX;
  liveness_.heard(message.rank, now_ns);
  return client.channel.flush();
}

// Only who beats says what it has heard, and can go on from there.
bool RootThread::mayReturn(const Client& client) const {
  return client.state == Client::State::kJoined && client.channel.broke() && rendezvous_.complete() &&
         listener_.fd.valid() && liveness_.watches(client.rank);
}

void RootThread::missThoseWhoStayAway(int64_t now_ns) {
  for (auto it = seats_.begin(); away_ > 0 && it != seats_.end();) {
    const auto& [rank, seat] = *it;
    if (seat.missed_from_ns > now_ns) {
      ++it;
      continue;
    }
    liveness_.forget(rank);
    rendezvous_.lost(rank, formatString("%s, and it did not come back within %lld ms",
                                        seat.why_broken.c_str(), static_cast<long long>(kReturnMs)));
    --away_;
    it = seats_.erase(it);
  }
}

// The first beat begins the watch.
Status RootThread::answerBeat(Client& client, const BeatMessage& beat, int64_t now_ns) {
  const int64_t interval_ms = std::clamp<int64_t>(beat.interval_ms, 1, kLongestBeatMs);
  if (!liveness_.watches(client.rank)) liveness_.watch(client.rank, interval_ms, now_ns);
  ControlJournal& journal = seats_.at(client.rank).journal;
  if (!journal.acknowledge(beat.heard))
    return makeStatus(Code::kRemoteError, "it has heard more than was said");
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(BeatEchoMessage{journal.heard()}))));
  return {};
}

// After what was decided in this turn has been sent, which an answer vouches for. Whose connection broke will ask again.
void RootThread::answerPings() {
  for (const auto& [rank, number] : std::exchange(pings_, {})) {
    const auto seat = seats_.find(rank);
    if (seat == seats_.end() || seat->second.fd < 0) continue;
    Client& client = *clients_.at(seat->second.fd);
    client.channel.send(
        std::make_shared<const std::vector<std::byte>>(encodeMessage(RootMessage(PongMessage{number}))));
    [[maybe_unused]] const Status flushed = client.channel.flush();
    watchWrites(client);
  }
}

void RootThread::judgeSilence(int64_t now_ns) {
  const std::vector<int> silent = liveness_.look(now_ns);
  if (!silent.empty()) rendezvous_.silent(silent, liveness_.patienceMs(silent[0]));
}

void RootThread::refuse(Client& client, const Status& why, int64_t now_ns) {
  log_.info(kSubsystem, "refused %s: %s", client.peer.text().c_str(), why.message().c_str());
  --strangers_;
  client.state = Client::State::kRefused;
  setDeadline(client, now_ns);
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(FailureMessage{why.code(), -1, why.message()}))));
  [[maybe_unused]] const Status flushed = client.channel.flush();
}

void RootThread::drop(int fd, const Status& why) {
  const auto found = clients_.find(fd);
  const std::unique_ptr<Client> client = std::move(found->second);
  clients_.erase(found);
  clearDeadline(*client);
  if (mayReturn(*client)) {
    Seat& seat = seats_.at(client->rank);
    seat.fd = -1;
    seat.missed_from_ns = clock_.nowNs() + toNs(kReturnMs);
    seat.why_broken = why.message();
    ++away_;
    log_.warn(kSubsystem, "rank %d: %s; waiting for it to come back", client->rank, why.message().c_str());
    return;
  }
  if (client->state == Client::State::kJoined) {
    liveness_.forget(client->rank);
    seats_.erase(client->rank);
    rendezvous_.lost(client->rank, client->channel.closed() ? "its control connection ended without a goodbye"
                                                            : why.message());
    return;
  }
  if (client->state != Client::State::kStranger) return;
  --strangers_;
  log_.info(kSubsystem, "dropped a stranger from %s: %s", client->peer.text().c_str(), why.message().c_str());
  // Silent ones are port scanners and health checks; those that spoke might be a rank with a wrong key or
  // version.
  if (client->channel.heard())
    rendezvous_.noteTrouble(formatString(
        "a connection from %s was turned away: %s", client->peer.text().c_str(),
        client->channel.closed() && !client->channel.proven() ? "it went away without proving this job's key"
                                                              : why.message().c_str()));
}

void RootThread::watchWrites(Client& client) {
  const bool wants = client.channel.wantsWrite();
  if (wants == client.watching_writes) return;
  client.watching_writes = wants;
  epoll_event event{};
  event.events = EPOLLIN | (wants ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  event.data.fd = client.channel.fd();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.channel.fd(), &event);
}

void RootThread::expire(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns)
    drop(deadlines_.begin()->second, makeStatus(Code::kTimeout, "it did not prove the key within %lld ms",
                                                static_cast<long long>(handshake_timeout_ms_)));
  if (accept_again_ns_ != 0 && now_ns >= accept_again_ns_) {
    accept_again_ns_ = 0;
    if (!watch(epoll_.get(), listener_.fd.get()).ok()) accept_again_ns_ = now_ns + toNs(kAcceptPauseMs);
  }
}

// Once all have come nobody else may: the port is free for the job's next communicator before the first rank can know.
void RootThread::listenForReturns() {
  if (!rendezvous_.complete() || listener_.port != port_) return;
  stopListening();
  listener_ = std::move(returns_);
  if (listener_.fd.valid() && !watch(epoll_.get(), listener_.fd.get()).ok()) listener_.fd.reset();
}

void RootThread::stopListening() {
  // Closing alone would not do it where a forked child has a copy.
  if (listener_.fd.valid() && accept_again_ns_ == 0)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd.get(), nullptr);
  accept_again_ns_ = 0;
  listener_.fd.reset();
}

// Somebody destroyed the socket. Ranks whose connections had the same fate know this port.
void RootThread::listenAgain() {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd.get(), nullptr);
  listener_.fd.reset();
  Result<Listener> listener = listenOn(address_ ? &*address_ : nullptr, listener_.port);
  if (!listener.ok() || !watch(epoll_.get(), listener.value().fd.get()).ok()) {
    log_.warn(kSubsystem, "cannot listen on port %u again", unsigned{listener_.port});
    return;
  }
  listener_ = listener.take();
}

// Sends this to all ranks that are there, and keeps it for those that may return. A broken connection shows up as an event later.
void RootThread::deliver(std::span<const SharedMessage> messages) {
  if (messages.empty()) return;
  for (auto& [rank, seat] : seats_) {
    const bool keeps = liveness_.watches(rank);
    for (const SharedMessage& message : messages) keeps ? seat.journal.keep(message) : seat.journal.pass();
    if (seat.fd < 0) continue;
    Client& client = *clients_.at(seat.fd);
    for (const SharedMessage& message : messages) client.channel.send(message);
    [[maybe_unused]] const Status flushed = client.channel.flush();
    watchWrites(client);
  }
}

// Says goodbye to those who are still there, and waits until each has heard it, which then ends its connection. Whose connection
// breaks comes back for the word: without it, it would take this for the loss of the rendezvous. Who has heard of a failure
// does not come back. Bounded however often connections break.
void RootThread::close() {
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &rings, sizeof rings);
  if (!rendezvous_.complete()) stopListening();
  const bool failed = rendezvous_.failed();
  deliver(std::array{
      std::make_shared<const std::vector<std::byte>>(encodeMessage(RootMessage(ClosingMessage{})))});
  const int64_t latest_ns = clock_.nowNs() + toNs(kReturnMs + kClosingMs);
  int64_t here_by_ns = clock_.nowNs() + toNs(kClosingMs);
  const auto expected = [&] { return seats_.size() - static_cast<size_t>(failed ? away_ : 0); };
  while (expected() > 0) {
    const int64_t left_ns = std::min(here_by_ns, latest_ns) - clock_.nowNs();
    if (left_ns <= 0) break;
    const int64_t now_ns = turn(static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, kLongestTurnMs)));
    if (away_ > 0) here_by_ns = now_ns + toNs(kClosingMs);
  }
  hangUp();
}

void RootThread::hangUp() {
  stopListening();
  clients_.clear();
}

}  // namespace horing
