#include "transport/socket/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "transport/link_shape.h"
#include "transport/socket/socket_transport.h"
#include "transport/socket/tuning.h"

namespace horing::tcp {

Acceptor::Acceptor(AcceptorOptions options, Poller& poller, const Clock& clock)
    : options_(std::move(options)), poller_(poller), clock_(clock) {}

Status Acceptor::open() {
  HORING_ASSIGN(listener_, NamedListener::open(options_.ports, options_.network, options_.instance));
  return {};
}

bool Acceptor::hasArrivals() {
  look();
  return !arrived_.empty();
}

void Acceptor::closeArrivals(const std::string& why) {
  options_.log.warn("socket", "rank %d sent %zu connections away: %s", options_.rank, arrived_.size(),
                    why.c_str());
  arrived_.clear();
}

Status Acceptor::watch() {
  HORING_TRY(poller_.add(listener_->fd(), EPOLLIN, *this));
  listener_->onWaiting(
      [this](int fd) { [[maybe_unused]] const Status added = poller_.add(fd, EPOLLIN | EPOLLET, *this); });
  has_events_ = true;
  return {};
}

void Acceptor::progress() {
  if (std::exchange(has_events_, false)) look();
  admitAll();
  for (auto it = unproven_.begin(); it != unproven_.end();) {
    const auto& [fd, connection] = *it++;
    if (connection->has_event) serve(fd);
  }
  // Only after reading what they sent: this rank may have been away, not the peers.
  if (!strangers_.empty()) strangers_.expire(clock_.nowNs(), actions());
}

StrangerActions Acceptor::actions() {
  return {.hear =
              [this](int fd) {
                serve(fd);
                const auto found = unproven_.find(fd);
                return found != unproven_.end() && found->second->handshake.heard();
              },
          .drop = [this](int fd, const std::string& why) { dropUnproven(fd, why); }};
}

void Acceptor::look() {
  for (;;) {
    NamedListener::Arrivals arrivals = listener_->take(clock_.nowNs(), options_.log);
    std::move(arrivals.connections.begin(), arrivals.connections.end(), std::back_inserter(arrived_));
    if (arrivals.error == 0) return;
    if (!makeRoom("this process has no more file descriptors (ulimit -n)"))
      return pauseAccepting(arrivals.error);
  }
}

// A waiting connection would keep this rank awake, though it cannot be accepted now.
void Acceptor::pauseAccepting(int error) {
  if (!poller_.isOpen() || !poller_.modify(listener_->fd(), 0, *this).ok()) return;
  pauses_for_ = error;
  options_.log.warn("socket", "this process has no more file descriptors for its peers: raise ulimit -n");
}

Status Acceptor::refusesAll() const {
  return pauses_for_ == 0 ? Status() : systemError(pauses_for_, "accept a connection");
}

bool Acceptor::makeRoom(const char* why) {
  if (strangers_.makeRoom(actions(), why)) return true;
  if (unclaimed_.empty()) return false;
  drop(unclaimed_.front().fd, why);
  unclaimed_.erase(unclaimed_.begin());
  return true;
}

void Acceptor::dropUnproven(int fd, const std::string& why) {
  drop(unproven_.at(fd)->fd, why);
  strangers_.remove(fd);
  unproven_.erase(fd);
}

void Acceptor::tick() {
  if (pauses_for_ != 0 && poller_.modify(listener_->fd(), EPOLLIN, *this).ok()) pauses_for_ = 0;
  has_events_ = true;  // silent connections have deadlines, too
  const int64_t now_ns = clock_.nowNs();
  // Oldest first.
  while (!unclaimed_.empty() && now_ns >= unclaimed_.front().deadline_ns) {
    drop(unclaimed_.front().fd,
         formatString("rank %u proved the key, but no link claimed it within %lld ms",
                      unclaimed_.front().hello.rank, static_cast<long long>(kUnclaimedMs)));
    unclaimed_.erase(unclaimed_.begin());
  }
}

void Acceptor::admitAll() {
  for (Fd& fd : std::exchange(arrived_, {})) {
    poller_.remove(fd.get());  // a waiting connection has a registration of its own
    admit(std::move(fd));
  }
}

void Acceptor::admit(Fd fd) {
  if (!tuneSocket(fd.get()).ok()) return;  // closed already
  const AcceptorHello own{.instance = options_.instance, .rank = static_cast<uint32_t>(options_.rank)};
  HandshakeOptions proof{.key = options_.key, .role = HandshakeRole::kAcceptor};
  const auto hello = std::as_bytes(std::span(&own, 1));
  proof.hello.assign(hello.begin(), hello.end());
  const int number = fd.get();
  auto connection = std::make_unique<Unproven>(WatchedFd(std::move(fd), poller_), proof);
  if (!connection->fd.watch(kSocketEvents, *connection).ok()) return;
  unproven_.emplace(number, std::move(connection));
  strangers_.admit(number, clock_.nowNs(), actions());
}

void Acceptor::serve(int fd) {
  Unproven& connection = *unproven_.at(fd);
  connection.has_event = false;
  const ProofProgress proof = driveProof(fd, connection.handshake);
  if (proof.state == ProofState::kUnderWay) return;
  if (proof.state != ProofState::kProven) return dropUnproven(fd, proof.why.message());
  keep(connection);
  strangers_.remove(fd);
  unproven_.erase(fd);
}

void Acceptor::keep(Unproven& connection) {
  ProvenConnection proven{};
  const std::vector<std::byte>& said = connection.handshake.peerHello();
  if (said.size() != sizeof proven.hello)
    return drop(connection.fd, formatString("its greeting has %zu bytes", said.size()));
  std::memcpy(&proven.hello, said.data(), sizeof proven.hello);
  if (const Status sane = checkHello(proven.hello); !sane.ok()) return drop(connection.fd, sane.message());
  proven.fd = std::move(connection.fd);
  proven.deadline_ns = clock_.nowNs() + kUnclaimedMs * 1'000'000;
  // Until a link takes the connection its events are of no use, but a hangup cannot be masked: one event is enough.
  if (!proven.fd.watch(EPOLLET, *this).ok()) return;
  // The same stream again: the connector has given up its earlier attempt.
  const auto sameStream = [&](const ProvenConnection& other) {
    return other.hello.instance == proven.hello.instance && other.hello.number == proven.hello.number &&
           other.hello.stream == proven.hello.stream;
  };
  const auto earlier = std::find_if(unclaimed_.begin(), unclaimed_.end(), sameStream);
  if (earlier != unclaimed_.end() && earlier->hello.attempt >= proven.hello.attempt) return;
  if (earlier != unclaimed_.end()) unclaimed_.erase(earlier);
  if (unclaimed_.size() == kMaxUnclaimed) {
    options_.log.warn("socket", "dropping a connection of rank %u that no link claimed: %zu are waiting",
                      unclaimed_.front().hello.rank, unclaimed_.size());
    unclaimed_.erase(unclaimed_.begin());
  }
  unclaimed_.push_back(std::move(proven));
  has_newly_proven_ = true;
}

Status Acceptor::checkHello(const ConnectorHello& hello) const {
  const LinkShape shape{
      .channels = static_cast<int>(hello.channels), .slots = hello.slots, .slot_bytes = hello.slot_bytes};
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(hello.number));
  if (hello.peer != static_cast<uint32_t>(options_.rank) || hello.peer_instance != options_.instance)
    return makeStatus(Code::kRemoteError, "its hello is from rank %u to rank %u of another communicator",
                      hello.rank, hello.peer);
  if (hello.rank >= hello.peer || hello.streams == 0 || hello.streams > kMaxStreams ||
      hello.stream >= hello.streams)
    return makeStatus(Code::kRemoteError, "its hello is from rank %u with stream %u of %u", hello.rank,
                      hello.stream, hello.streams);
  return {};
}

void Acceptor::drop(const WatchedFd& fd, const std::string& why) const {
  options_.log.info("socket", "dropped a connection from %s: %s", peerEndpoint(fd.get()).text().c_str(),
                    why.c_str());
}

std::optional<ProvenConnection> Acceptor::claim(int rank, const Instance& instance, int number) {
  const auto found = std::find_if(unclaimed_.begin(), unclaimed_.end(), [&](const ProvenConnection& proven) {
    return proven.hello.rank == static_cast<uint32_t>(rank) && proven.hello.instance == instance &&
           proven.hello.number == number;
  });
  if (found == unclaimed_.end()) return std::nullopt;
  ProvenConnection proven = std::move(*found);
  unclaimed_.erase(found);
  return proven;
}

}  // namespace horing::tcp
