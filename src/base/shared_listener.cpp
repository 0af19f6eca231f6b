#include "base/shared_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/per_process.h"

namespace horing {

namespace {

constexpr int kEventsPerTurn = 64;

struct Listeners {
  struct Entry {
    PortRange ports;
    uint64_t network = 0;
    std::weak_ptr<SharedListener> listener;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

Result<std::shared_ptr<SharedListener>> sharedBy(const PortRange& ports, uint64_t network) {
  auto& all = perProcess<Listeners>();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.entries, [](const Listeners::Entry& entry) { return entry.listener.expired(); });
  for (const Listeners::Entry& entry : all.entries) {
    if (entry.ports != ports || entry.network != network) continue;
    if (auto there = entry.listener.lock()) return there;
  }
  HORING_ASSIGN(std::shared_ptr<SharedListener> made, SharedListener::make(ports));
  all.entries.push_back({ports, network, made});
  return made;
}

}  // namespace

Result<std::unique_ptr<NamedListener>> NamedListener::open(const PortRange& ports, uint64_t network,
                                                           const ListenerName& name) {
  HORING_ASSIGN(std::shared_ptr<SharedListener> listener, sharedBy(ports, network));
  std::unique_ptr<NamedListener> made(new NamedListener(std::move(listener), name));
  made->listener_->add(*made);
  return made;
}

NamedListener::~NamedListener() {
  if (listener_->isOfParent()) return;
  listener_->remove(*this);
  // Under the lock: a thread that then opens a listener on the same port must find this one closed.
  const std::lock_guard lock(perProcess<Listeners>().mutex);
  listener_.reset();
}

uint16_t NamedListener::port() const {
  return listener_->port();
}

int NamedListener::fd() const {
  return listener_->fd();
}

void NamedListener::onWaiting(std::function<void(int)> notify) {
  listener_->onWaiting(*this, std::move(notify));
}

NamedListener::Arrivals NamedListener::take(int64_t now_ns, const Log& log) {
  return listener_->isOfParent() ? Arrivals() : listener_->take(*this, now_ns, log);
}

size_t NamedListener::unnamed() const {
  return listener_->unnamed();
}

Result<std::shared_ptr<SharedListener>> SharedListener::make(const PortRange& ports) {
  auto made = std::make_shared<SharedListener>();
  made->ports_ = ports;
  made->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_.valid()) return systemError(errno, "open an epoll descriptor");
  HORING_TRY(made->listen());
  return made;
}

Status SharedListener::listen() {
  // The first call picks a port; later calls reuse it.
  HORING_ASSIGN(listener_, port_ == 0 ? listenOn(nullptr, ports_) : listenOn(nullptr, port_));
  port_ = listener_.port;
  // Level-triggered: the next turn reports what this one leaves.
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener_.fd.get()}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.fd.get(), &event) != 0)
    return systemError(errno, "watch a socket with epoll");
  return {};
}

// Peers know this port: peers that reconnect after all sockets were destroyed expect this process there.
void SharedListener::listenAgain(const Log& log) {
  // A forked child may hold a copy.
  if (listener_.fd.valid()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd.get(), nullptr);
  listener_.fd.reset();
  if (const Status listening = listen(); !listening.ok())
    log.warn("socket", "cannot listen on port %u again: %s", unsigned{port_}, listening.message().c_str());
}

void SharedListener::add(NamedListener& named) {
  const std::lock_guard lock(mutex_);
  named_[named.name_] = &named;
}

void SharedListener::remove(NamedListener& named) {
  const std::lock_guard lock(mutex_);
  if (const auto own = named_.find(named.name_); own != named_.end() && own->second == &named)
    named_.erase(own);
  std::erase_if(waiting_, [&](const Connection& connection) { return connection.owner == &named; });
}

void SharedListener::onWaiting(NamedListener& named, std::function<void(int)> notify) {
  const std::lock_guard lock(mutex_);
  named.on_waiting_ = std::move(notify);
}

NamedListener::Arrivals SharedListener::take(NamedListener& taker, int64_t now_ns, const Log& log) {
  const Turn turn{taker, now_ns, log};
  NamedListener::Arrivals arrivals;
  const std::lock_guard lock(mutex_);
  if (!listener_.fd.valid()) listenAgain(log);
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  bool has_newcomers = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    has_newcomers = has_newcomers || fd == listener_.fd.get();
    if (strangers_.contains(fd)) read(fd, events[static_cast<size_t>(i)].events, turn);
  }
  // After the events of existing connections: accept may reuse the number of a descriptor that was just closed.
  if (has_newcomers) arrivals.error = acceptAll(turn);
  strangers_.expire(now_ns, actions(turn));
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->owner == &taker) arrivals.connections.push_back(std::move(it->fd));
    it = it->owner == &taker ? waiting_.erase(it) : std::next(it);
  }
  unnamed_count_.store(strangers_.size(), std::memory_order_relaxed);
  return arrivals;
}

int SharedListener::acceptAll(const Turn& turn) {
  const Accepted last = acceptWaiting(
      listener_.fd, [&](Accepted accepted) { admit(std::move(accepted), turn); },
      [&](int) { return makeRoom(turn); });
  if (last.outcome == Accepted::Outcome::kDestroyed) listenAgain(turn.log);
  return last.outcome == Accepted::Outcome::kLacking ? last.error : 0;
}

StrangerActions SharedListener::actions(const Turn& turn) {
  return {.hear =
              [this, &turn](int fd) {
                read(fd, 0, turn);
                const auto found = unnamed_.find(fd);
                return found != unnamed_.end() && found->second.heard;
              },
          .drop = [this, &turn](int fd, const std::string& why) { dropUnnamed(fd, turn.log, why); }};
}

void SharedListener::admit(Accepted accepted, const Turn& turn) {
  const int fd = accepted.fd.get();
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  unnamed_.emplace(fd, Connection{.fd = std::move(accepted.fd), .from = accepted.from});
  strangers_.admit(fd, turn.now_ns, actions(turn));
  read(fd, 0, turn);
}

// Connections that have not sent a name first, then those that have waited longest.
bool SharedListener::makeRoom(const Turn& turn) {
  constexpr const char* kWhy = "this process has no more file descriptors (ulimit -n)";
  if (strangers_.makeRoom(actions(turn), kWhy)) return true;
  if (waiting_.empty()) return false;
  drop(waiting_.front(), turn.log, kWhy);
  waiting_.pop_front();
  return true;
}

// Peeks: the connection's owner reads the bytes.
void SharedListener::read(int fd, uint32_t events, const Turn& turn) {
  std::array<std::byte, kOpeningBytes> said;
  const ssize_t got = ::recv(fd, said.data(), said.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto bytes = std::span(said).first(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const Opening opening = readOpening(bytes);
  const bool ended = got <= 0 || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (opening.state == Opening::State::kPartial) {
    unnamed_.at(fd).heard = true;
    if (ended) dropUnnamed(fd, turn.log, "the connection was closed by the other end");
    return;
  }
  const auto named = opening.state == Opening::State::kNamed ? named_.find(opening.name) : named_.end();
  if (opening.state != Opening::State::kStranger)
    return assign(fd, named == named_.end() ? turn.taker : *named->second, turn);
  // No idle transport opens descriptors for it.
  dropUnnamed(fd, turn.log, "it does not speak horing's protocol");
}

void SharedListener::assign(int fd, NamedListener& owner, const Turn& turn) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (waiting_.size() == kMaxWaitingConnections) {
    drop(waiting_.front(), turn.log, "too many connections came after it");
    waiting_.pop_front();
  }
  waiting_.push_back(std::move(unnamed_.extract(fd).mapped()));
  strangers_.remove(fd);
  waiting_.back().owner = &owner;
  if (&owner != &turn.taker && owner.on_waiting_) owner.on_waiting_(fd);
}

void SharedListener::dropUnnamed(int fd, const Log& log, const std::string& why) {
  drop(unnamed_.at(fd), log, why);
  strangers_.remove(fd);
  unnamed_.erase(fd);
}

void SharedListener::drop(const Connection& connection, const Log& log, const std::string& why) {
  // A forked child may hold a copy, and the kernel would still report its events.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr);
  log.info("socket", "dropped a connection from %s: %s", connection.from.text().c_str(), why.c_str());
}

}  // namespace horing
