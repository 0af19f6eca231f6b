#include "control/root_thread.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "base/config.h"
#include "base/overloaded.h"

namespace horing {

namespace {

constexpr const char* kSubsystem = "root";
// After a failed arrival, ranks that come late can still ask for the reason.
constexpr int64_t kLingerMs = 10'000;
constexpr int64_t kClosingMs = 1000;
constexpr int64_t kLongestTurnMs = 50;  // while it closes
// While a deadline is pending: the process detects that it was stopped only by a wait that took too long.
constexpr int64_t kLongestWaitMs = 500;
// Out of file descriptors: accepting again at once would spin.
constexpr int64_t kAcceptPauseMs = 100;

constexpr int64_t toNs(int64_t ms) {
  return ms * 1'000'000;
}

std::atomic<int> running_roots{0};

}  // namespace

Status RootThread::begin() {
  HORING_ASSIGN(watch_, Watch::open());
  if (!keepSpare()) return systemError(errno, "the rendezvous could not make its descriptors");
  HORING_TRY(watch_->add(listener_.fd.get(), EPOLLIN));
  begun_ns_ = clock_.nowNs();
  // Counted here, before the caller can ask.
  running_roots.fetch_add(1, std::memory_order_relaxed);
  const Status started = thread_.start("the rendezvous", [this] { run(); });
  if (!started.ok()) running_roots.fetch_sub(1, std::memory_order_relaxed);
  return started;
}

int RootService::running() {
  return running_roots.load(std::memory_order_relaxed);
}

RootThread::~RootThread() {
  thread_.end([this] {
    // release: pairs with the acquire in loop().
    stop_.store(true, std::memory_order_release);
    watch_->wake();
  });
  clients_.clear();  // they are watched, also in a forked child, whose parent's thread still runs
  watch_.reset();    // before the listener, which it may still watch
}

bool RootThread::waitFinished(int64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return finished_; });
}

void RootThread::run() {
  const Status ended = withoutExceptions([&] { loop(), close(); });
  // Without memory the rendezvous ends. Closing the connections tells all ranks, and needs no memory.
  if (!ended.ok()) hangUp();
  running_roots.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  finished_ = true;
  ended_.notify_all();
}

void RootThread::loop() {
  while (!stop_.load(std::memory_order_acquire)) {
    const int64_t now_ns = turn(pings_.empty() ? waitMs(clock_.nowNs()) : 0);
    // A ping that arrives while messages are read is answered in the next turn: earlier messages of other ranks may be unread.
    const std::map<int, uint64_t> asked = std::exchange(pings_, {});
    if (!asked.empty()) readAll(now_ns);
    judgeSilence(now_ns);
    rendezvous_.tick(now_ns);
    if (const std::string late = rendezvous_.takeLate(now_ns); !late.empty())
      log_.info("root", "still waiting: %s", late.c_str());
    for (const std::string& news : rendezvous_.takePaceNews()) log_.info("pace", "%s", news.c_str());
    const std::vector<SharedMessage> decided = rendezvous_.takeBroadcasts();
    if (!decided.empty()) listenForReturns();
    deliver(decided);
    answerPings(asked);
    if (over(now_ns)) return;
  }
}

// Messages that other ranks sent before a ping may be missing from this turn's events; they are handled before the answer.
void RootThread::readAll(int64_t now_ns) {
  std::vector<int> connections;
  for (const auto& [rank, session] : sessions_)
    if (session.fd >= 0) connections.push_back(session.fd);
  for (const int fd : connections) serve(fd, now_ns);
}

// Waits for events and handles them. Returns the time of the wake-up.
int64_t RootThread::turn(int wait_ms) {
  const std::vector<int> ready = watch_->wait(wait_ms);
  clock_.woke(wait_ms);
  const int64_t now_ns = clock_.nowNs();
  for (const int fd : ready) {
    if (listener_.fd.valid() && fd == listener_.fd.get()) {
      acceptArrivals(now_ns);
    } else {
      serve(fd, now_ns);
    }
  }
  expire(now_ns);
  missThoseWhoStayAway(now_ns);
  return now_ns;
}

// No rank will need this service any more.
bool RootThread::over(int64_t now_ns) {
  if (!rendezvous_.anyoneCame() && !rendezvous_.failed())
    return idle_timeout_ms_ && now_ns - begun_ns_ >= toNs(*idle_timeout_ms_);
  if (rendezvous_.present() > 0) return false;
  if (rendezvous_.complete()) return true;
  // Refused ranks remain clients until they have read the reason.
  if (rendezvous_.everyoneKnows() && clients_.empty()) return true;
  if (failed_ns_ == 0) failed_ns_ = now_ns;
  return now_ns - failed_ns_ >= toNs(kLingerMs);
}

int RootThread::waitMs(int64_t now_ns) const {
  int64_t until_ns = idle_timeout_ms_ ? begun_ns_ + toNs(*idle_timeout_ms_) : INT64_MAX;
  if (rendezvous_.anyoneCame() || rendezvous_.failed()) until_ns = now_ns + toNs(kLingerMs);
  if (failed_ns_ != 0) until_ns = std::min(until_ns, failed_ns_ + toNs(kLingerMs));
  if (accept_again_ns_ != 0) until_ns = std::min(until_ns, accept_again_ns_);
  for (auto session = sessions_.begin(); away_ > 0 && session != sessions_.end(); ++session)
    until_ns = std::min(until_ns, session->second.missed_from_ns);
  until_ns = std::min({until_ns, strangers_.deadlineNs(), refused_.deadlineNs(), liveness_.nextLookNs(),
                       rendezvous_.nextTickNs()});
  const int64_t left_ms = (until_ns - now_ns + 999'999) / 1'000'000;
  const bool has_deadlines =
      !strangers_.empty() || !refused_.empty() || away_ > 0 || rendezvous_.nextTickNs() != INT64_MAX;
  return static_cast<int>(std::clamp<int64_t>(left_ms, 0, has_deadlines ? kLongestWaitMs : 60'000));
}

// For one connection beyond the limit of descriptors, so that its rank receives the reason.
bool RootThread::keepSpare() {
  if (!spare_.valid()) spare_.reset(::eventfd(0, EFD_CLOEXEC));
  return spare_.valid();
}

void RootThread::acceptArrivals(int64_t now_ns) {
  if (!rendezvous_.complete()) [[maybe_unused]]
    const bool has_spare = keepSpare();
  const Accepted last = acceptWaiting(
      listener_.fd,
      [&](Accepted accepted) { welcomeStranger(std::move(accepted.fd), accepted.from, now_ns); },
      [&](int error) {
        lackDescriptors(now_ns, error);
        return accept_again_ns_ == 0;
      });
  if (last.outcome == Accepted::Outcome::kDestroyed) listenAgain();
}

StrangerActions RootThread::actions(int64_t now_ns) {
  return {
      .hear =
          [this, now_ns](int fd) {
            serve(fd, now_ns);
            const auto found = clients_.find(fd);
            return found != clients_.end() && found->second->channel.heard();
          },
      .drop = [this](int fd,
                     const std::string& why) { drop(fd, makeStatus(Code::kTimeout, "%s", why.c_str())); }};
}

void RootThread::lackDescriptors(int64_t now_ns, int error_number) {
  const Status why =
      systemError(error_number, "the process that hosts the rendezvous cannot take more connections");
  log_.warn(kSubsystem, "%s", why.message().c_str());
  rendezvous_.noteTrouble(why.message());
  // Connections that have not introduced themselves may end soon. If there are none, the shortage remains and not all ranks have
  // arrived: they are told so one by one.
  if (strangers_.empty() && spare_.valid()) {
    rendezvous_.cannotTakeMore(why);
    return spare_.reset();
  }
  watch_->remove(listener_.fd.get());
  accept_again_ns_ = now_ns + toNs(kAcceptPauseMs);
}

void RootThread::welcomeStranger(Fd fd, const Endpoint& from, int64_t now_ns) {
  const int number = fd.get();
  tuneControlSocket(number);
  auto client = std::make_unique<Client>(std::move(fd), key_, from);
  if (!watch_->add(number, EPOLLIN).ok()) return;
  client->watch = watch_.get();
  clients_.emplace(number, std::move(client));
  strangers_.admit(number, now_ns, actions(now_ns));
}

void RootThread::serve(int fd, int64_t now_ns) {
  const auto found = clients_.find(fd);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  Status status = client.channel.progress();
  // Messages received before the break still count: a goodbye, or the reason for the end.
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
    if (const auto* const back = std::get_if<ReturnMessage>(&message))
      return handleReturn(client, *back, now_ns);
    const auto* const hello = std::get_if<HelloMessage>(&message);
    return hello ? handleHello(client, *hello, now_ns)
                 : makeStatus(Code::kRemoteError, "its first message was not a Hello");
  }
  liveness_.heard(client.rank, now_ns);
  if (isCounted(message)) sessions_.at(client.rank).journal.noteReceived();
  return handleJoined(client, std::move(message), now_ns);
}

Status RootThread::handleJoined(Client& client, RankMessage message, int64_t now_ns) {
  const int rank = client.rank;
  Status handled;
  std::visit(
      Overloaded{
          [&](const HelloMessage&) { handled = makeStatus(Code::kRemoteError, "it sent a second Hello"); },
          [&](GatherMessage& gather) { handled = rendezvous_.gather(rank, std::move(gather), now_ns); },
          [&](const AnnounceMessage& announce) {
            log_.info(kSubsystem, "rank %d announced: %s", rank, announce.reason.c_str());
            rendezvous_.announce(rank, announce);
          },
          [&](const GoodbyeMessage&) { handled = handleGoodbye(client); },
          [&](const BeatMessage& beat) { handled = answerBeat(client, beat, now_ns); },
          [&](CallReport& report) { rendezvous_.report(rank, std::move(report), now_ns); },
          [&](const ReturnMessage&) {
            handled = makeStatus(Code::kRemoteError, "it returned on a connection that it has joined by");
          },
          [&](RankState& state) { rendezvous_.tell(rank, std::move(state), now_ns); },
          [&](const PingMessage& ping) { pings_[rank] = ping.number; },
          [&](const Pace& pace) { rendezvous_.notePace(rank, pace, now_ns); },
          [&](const JobQuestion&) {
            const auto silence_ns = [&](int other) { return liveness_.silenceNs(other, now_ns); };
            client.channel.send(std::make_shared<const std::vector<std::byte>>(
                encodeMessage(RootMessage(JobAnswer{rendezvous_.jobLines(now_ns, silence_ns)}))));
          },
      },
      message);
  return handled;
}

Status RootThread::handleGoodbye(Client& client) {
  liveness_.forget(client.rank);
  sessions_.erase(client.rank);
  rendezvous_.goodbye(client.rank);
  client.state = Client::State::kRefused;
  return makeStatus(Code::kRemoteError, "it left");
}

Status RootThread::handleHello(Client& client, const HelloMessage& hello, int64_t now_ns) {
  const Status judged = rendezvous_.hello(hello, now_ns);
  if (!judged.ok()) {
    refuse(client, judged, now_ns);
    return {};
  }
  log_.trace(kSubsystem, "rank %d of %d joined from %s", hello.rank, hello.ranks, client.peer.text().c_str());
  strangers_.remove(client.channel.fd());
  client.state = Client::State::kJoined;
  client.rank = hello.rank;
  Session& session = sessions_[hello.rank];
  session.secret = hello.secret;
  session.fd = client.channel.fd();
  return {};
}

// Replaces the connection that broke, even if the rendezvous has not noticed the break yet.
Status RootThread::handleReturn(Client& client, const ReturnMessage& message, int64_t now_ns) {
  const auto found = sessions_.find(message.rank);
  if (found == sessions_.end() || found->second.secret != message.secret)
    return makeStatus(Code::kRemoteError, "it is not the process that joined as rank %d", message.rank);
  Session& session = found->second;
  if (message.received > session.journal.sent())
    return makeStatus(Code::kRemoteError, "rank %d acknowledged more messages than were sent", message.rank);
  if (!session.journal.reaches(message.received)) {
    // So that the rank does not take this for the end of the rendezvous.
    refuse(client,
           makeStatus(
               Code::kRemoteError,
               "rank %d returned to the rendezvous too late: it has %llu of %llu messages, and only the last "
               "%zu can be repeated",
               message.rank, static_cast<unsigned long long>(message.received),
               static_cast<unsigned long long>(session.journal.sent()), session.journal.kept()),
           now_ns);
    return {};
  }
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(ReturnedMessage{session.journal.received()}))));
  HORING_CHECK(session.journal.resend(message.received, client.channel));
  log_.info(kSubsystem, "rank %d has returned from %s", message.rank, client.peer.text().c_str());
  if (session.fd >= 0) {
    clients_.erase(session.fd);
  } else {
    --away_;
  }
  strangers_.remove(client.channel.fd());
  client.state = Client::State::kJoined;
  client.rank = message.rank;
  session.fd = client.channel.fd();
  session.missed_from_ns = INT64_MAX;
  liveness_.heard(message.rank, now_ns);
  return client.channel.flush();
}

// Only heartbeats carry the counts that a return needs.
bool RootThread::mayReturn(const Client& client) const {
  return client.state == Client::State::kJoined && client.channel.broke() && rendezvous_.complete() &&
         listener_.fd.valid() && liveness_.watches(client.rank);
}

void RootThread::missThoseWhoStayAway(int64_t now_ns) {
  for (auto it = sessions_.begin(); away_ > 0 && it != sessions_.end();) {
    const auto& [rank, session] = *it;
    if (session.missed_from_ns > now_ns) {
      ++it;
      continue;
    }
    liveness_.forget(rank);
    rendezvous_.lost(rank, formatString("%s, and it did not return within %lld ms",
                                        session.why_broken.c_str(), static_cast<long long>(kReturnMs)));
    --away_;
    it = sessions_.erase(it);
  }
}

// The first heartbeat starts the watch.
Status RootThread::answerBeat(Client& client, const BeatMessage& beat, int64_t now_ns) {
  const int64_t interval_ms = std::clamp<int64_t>(beat.interval_ms, 1, rangeOf("HORING_HEARTBEAT_MS").most);
  if (!liveness_.watches(client.rank)) liveness_.watch(client.rank, interval_ms, now_ns);
  ControlJournal& journal = sessions_.at(client.rank).journal;
  if (!journal.acknowledge(beat.received))
    return makeStatus(Code::kRemoteError, "it acknowledged more messages than were sent");
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(BeatEchoMessage{journal.received()}))));
  return {};
}

// Sent after everything decided in this turn, which the answer confirms. A rank whose connection broke asks again.
void RootThread::answerPings(const std::map<int, uint64_t>& asked) {
  for (const auto& [rank, number] : asked) {
    const auto session = sessions_.find(rank);
    if (session == sessions_.end() || session->second.fd < 0) continue;
    Client& client = *clients_.at(session->second.fd);
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
  strangers_.remove(client.channel.fd());
  client.state = Client::State::kRefused;
  refused_.add(client.channel.fd(), now_ns);
  client.channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RootMessage(FailureMessage{why.code(), -1, why.message()}))));
  [[maybe_unused]] const Status flushed = client.channel.flush();
}

void RootThread::drop(int fd, const Status& why) {
  const auto found = clients_.find(fd);
  const std::unique_ptr<Client> client = std::move(found->second);
  clients_.erase(found);
  strangers_.remove(fd);
  refused_.remove(fd);
  if (mayReturn(*client)) {
    Session& session = sessions_.at(client->rank);
    session.fd = -1;
    session.missed_from_ns = clock_.nowNs() + toNs(kReturnMs);
    session.why_broken = why.message();
    ++away_;
    log_.warn(kSubsystem, "rank %d: %s; waiting for it to return", client->rank, why.message().c_str());
    return;
  }
  if (client->state == Client::State::kJoined) {
    liveness_.forget(client->rank);
    sessions_.erase(client->rank);
    rendezvous_.lost(client->rank, client->channel.closed() ? "its control connection ended without a goodbye"
                                                            : why.message());
    return;
  }
  if (client->state != Client::State::kStranger) return;
  log_.info(kSubsystem, "dropped a connection from %s: %s", client->peer.text().c_str(),
            why.message().c_str());
  // Silent connections are port scanners and health checks; those that sent something might be a rank with a wrong key or version.
  if (client->channel.heard())
    rendezvous_.noteTrouble(formatString("a connection from %s was refused: %s", client->peer.text().c_str(),
                                         client->channel.closed() && !client->channel.proven()
                                             ? "it closed without proving this job's key"
                                             : why.message().c_str()));
}

void RootThread::watchWrites(Client& client) {
  watch_->change(client.channel.fd(), client.channel.wantsWrite() ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void RootThread::expire(int64_t now_ns) {
  for (Strangers* const list : {&strangers_, &refused_}) list->expire(now_ns, actions(now_ns));
  if (accept_again_ns_ != 0 && now_ns >= accept_again_ns_) {
    accept_again_ns_ = 0;
    if (!watch_->add(listener_.fd.get(), EPOLLIN).ok()) accept_again_ns_ = now_ns + toNs(kAcceptPauseMs);
  }
}

// Once all ranks have arrived no other may: the port is released for the job's next communicator before the first rank can know.
void RootThread::listenForReturns() {
  if (!rendezvous_.complete() || listener_.port != port_) return;
  stopListening();
  spare_.reset();
  listener_ = std::move(returns_);
  if (listener_.fd.valid() && !watch_->add(listener_.fd.get(), EPOLLIN).ok()) listener_.fd.reset();
}

void RootThread::stopListening() {
  // Closing alone would not do it where a forked child has a copy.
  if (listener_.fd.valid() && accept_again_ns_ == 0) watch_->remove(listener_.fd.get());
  accept_again_ns_ = 0;
  listener_.fd.reset();
}

// The listening socket was destroyed (`ss -K`). Ranks whose connections were destroyed, too, know this port.
void RootThread::listenAgain() {
  watch_->remove(listener_.fd.get());
  listener_.fd.reset();
  Result<Listener> listener = listenOn(address_ ? &*address_ : nullptr, listener_.port);
  if (!listener.ok() || !watch_->add(listener.value().fd.get(), EPOLLIN).ok()) {
    log_.warn(kSubsystem, "cannot listen on port %u again", unsigned{listener_.port});
    return;
  }
  listener_ = listener.take();
}

// Sends this to all present ranks, and keeps it for ranks that may return. A broken connection shows up as an event later.
void RootThread::deliver(std::span<const SharedMessage> messages) {
  if (messages.empty()) return;
  for (auto& [rank, session] : sessions_) {
    const bool keeps = liveness_.watches(rank);
    for (const SharedMessage& message : messages)
      keeps ? session.journal.keep(message) : session.journal.pass();
    if (session.fd < 0) continue;
    Client& client = *clients_.at(session.fd);
    for (const SharedMessage& message : messages) client.channel.send(message);
    [[maybe_unused]] const Status flushed = client.channel.flush();
    watchWrites(client);
  }
}

// Sends Closing to all present ranks, and waits until each has received it and ended its connection. A rank whose connection breaks
// returns for the message: without it, the rank would report the rendezvous as lost. A rank that has received a failure does not
// return. Bounded even if connections break repeatedly.
void RootThread::close() {
  if (!rendezvous_.complete()) stopListening();
  const bool failed = rendezvous_.failed();
  deliver(std::array{
      std::make_shared<const std::vector<std::byte>>(encodeMessage(RootMessage(ClosingMessage{})))});
  const int64_t latest_ns = clock_.nowNs() + toNs(kReturnMs + kClosingMs);
  int64_t here_by_ns = clock_.nowNs() + toNs(kClosingMs);
  const auto expected = [&] { return sessions_.size() - static_cast<size_t>(failed ? away_ : 0); };
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
