#include "transport/socket/reception.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "transport/link_shape.h"
#include "transport/socket/socket_transport.h"

namespace horing::tcp {

namespace {
constexpr int kAcceptsPerRound = 64;
}

Reception::Reception(ReceptionOptions options, Poller& poller, const Clock& clock)
    : options_(std::move(options)), poller_(poller), clock_(clock) {}

Status Reception::open() {
  return listen();
}

Status Reception::listen() {
  // The first time where it may, then where it was.
  HORING_ASSIGN(Listener listener,
                port() == 0 ? listenOn(nullptr, options_.ports) : listenOn(nullptr, port()));
  HORING_TRY(tuneSocket(listener.fd.get(), options_.tuning));
  listener_ = std::move(listener);
  // Level-triggered: what one round leaves is there in the next.
  return poller_.add(listener_.fd.get(), EPOLLIN, *this);
}

// Peers know this port: those that come back after all sockets were destroyed look for this rank there.
void Reception::listenAgain() {
  poller_.remove(listener_.fd.get());
  listener_.fd.reset();
  if (const Status listening = listen(); !listening.ok())
    options_.log.warn("socket", "cannot listen on port %u again: %s", unsigned{port()},
                      listening.message().c_str());
}

void Reception::progress() {
  if (std::exchange(rings_, false)) acceptAll();
  if (visitors_.empty()) return;
  const int64_t now_ns = clock_.nowNs();
  for (auto it = visitors_.begin(); it != visitors_.end();) {
    Visitor& visitor = **it;
    bool finished = visitor.stirred && serve(visitor);
    // Only after a look at what it sent: this rank, not the visitor, may have been away.
    if (!finished && now_ns >= visitor.deadline_ns) {
      drop(visitor.fd,
           formatString("it did not prove the key within %lld ms", static_cast<long long>(kProofTimeoutMs)));
      finished = true;
    }
    it = finished ? visitors_.erase(it) : std::next(it);
  }
}

void Reception::acceptAll() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Accepted next = acceptNext(listener_.fd);
    if (next.outcome == Accepted::Outcome::kDestroyed) return listenAgain();
    if (next.outcome == Accepted::Outcome::kNone) return;
    if (next.outcome == Accepted::Outcome::kOne) {
      admit(std::move(next.fd));
    } else if (!makeRoom("this process has no more file descriptors (ulimit -n)")) {
      return pauseAccepting(next.error);
    }
  }
}

// What is in the listener's queue would keep this rank awake, and nothing can be done for it now.
void Reception::pauseAccepting(int error) {
  if (!poller_.modify(listener_.fd.get(), 0, *this).ok()) return;
  pauses_for_ = error;
  options_.log.warn("socket", "this process has no more file descriptors for its peers: raise ulimit -n");
}

Status Reception::refusesAll() const {
  return pauses_for_ == 0 ? Status() : systemError(pauses_for_, "accept a connection");
}

bool Reception::makeRoom(const char* why) {
  if (!visitors_.empty()) {
    dropVisitor(why);
  } else if (!parked_.empty()) {
    drop(parked_.front().fd, why);
    parked_.erase(parked_.begin());
  } else {
    return false;
  }
  return true;
}

// Of those that have said nothing the oldest, for a peer speaks at once; if all have said something, the oldest of all.
void Reception::dropVisitor(const char* why) {
  for (auto it = visitors_.begin(); it != visitors_.end(); ++it) {
    // What it said may not have been read yet, and perhaps ends its visit.
    const bool finished = serve(**it);
    if (!finished && (*it)->handshake.heard()) continue;
    if (!finished) drop((*it)->fd, why);
    visitors_.erase(it);
    return;
  }
  drop(visitors_.front()->fd, why);
  visitors_.pop_front();
}

void Reception::tick() {
  if (pauses_for_ != 0 && poller_.modify(listener_.fd.get(), EPOLLIN, *this).ok()) pauses_for_ = 0;
  const int64_t now_ns = clock_.nowNs();
  // Somebody else may have taken the port when it was to be listened on again.
  if (!listener_.fd.valid()) listenAgain();
  // Oldest first.
  while (!parked_.empty() && now_ns >= parked_.front().deadline_ns) {
    drop(parked_.front().fd, formatString("rank %u proved the key, but nobody asked for it within %lld ms",
                                          parked_.front().hello.rank, static_cast<long long>(kParkedMs)));
    parked_.erase(parked_.begin());
  }
}

void Reception::admit(Fd fd) {
  if (!tuneSocket(fd.get(), options_.tuning).ok()) return;  // gone already
  const AcceptorHello own{.instance = options_.instance, .rank = static_cast<uint32_t>(options_.rank)};
  HandshakeOptions proof{.key = options_.key, .role = HandshakeRole::kAcceptor};
  const auto hello = std::as_bytes(std::span(&own, 1));
  proof.hello.assign(hello.begin(), hello.end());
  const int64_t deadline_ns = clock_.nowNs() + kProofTimeoutMs * 1'000'000;
  auto visitor = std::make_unique<Visitor>(WatchedFd(std::move(fd), poller_), proof, deadline_ns);
  if (!visitor->fd.watch(kSocketEvents, *visitor).ok()) return;
  if (visitors_.size() == kMaxUnproven) dropVisitor("too many others came after it");
  visitors_.push_back(std::move(visitor));
}

bool Reception::serve(Visitor& visitor) {
  visitor.stirred = false;
  const ProofProgress proof = driveProof(visitor.fd.get(), visitor.handshake);
  if (proof.state == ProofState::kUnderWay) return false;
  if (proof.state == ProofState::kProven) {
    park(visitor);
  } else {
    drop(visitor.fd, proof.why.message());
  }
  return true;
}

void Reception::park(Visitor& visitor) {
  Guest guest{};
  const std::vector<std::byte>& said = visitor.handshake.peerHello();
  if (said.size() != sizeof guest.hello)
    return drop(visitor.fd, formatString("its greeting has %zu bytes", said.size()));
  std::memcpy(&guest.hello, said.data(), sizeof guest.hello);
  if (const Status sane = checkHello(guest.hello); !sane.ok()) return drop(visitor.fd, sane.message());
  guest.fd = std::move(visitor.fd);
  guest.deadline_ns = clock_.nowNs() + kParkedMs * 1'000'000;
  // Until a link takes the connection its events are of no use, but the end of it cannot be masked: once is enough.
  if (!guest.fd.watch(EPOLLET, *this).ok()) return;
  // The same stream again: the connector gave up its earlier attempt.
  const auto sameStream = [&](const Guest& other) {
    return other.hello.instance == guest.hello.instance && other.hello.number == guest.hello.number &&
           other.hello.stream == guest.hello.stream;
  };
  const auto earlier = std::find_if(parked_.begin(), parked_.end(), sameStream);
  if (earlier != parked_.end() && earlier->hello.attempt >= guest.hello.attempt) return;
  if (earlier != parked_.end()) parked_.erase(earlier);
  if (parked_.size() == kMaxParked) {
    options_.log.warn("socket",
                      "dropping a connection of rank %u that nobody asked for: %zu of them are waiting",
                      parked_.front().hello.rank, parked_.size());
    parked_.erase(parked_.begin());
  }
  parked_.push_back(std::move(guest));
  guests_came_ = true;
}

Status Reception::checkHello(const ConnectorHello& hello) const {
  const LinkShape shape{
      .channels = static_cast<int>(hello.channels), .slots = hello.slots, .slot_bytes = hello.slot_bytes};
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(hello.number));
  if (hello.peer != static_cast<uint32_t>(options_.rank) || hello.peer_instance != options_.instance)
    return makeStatus(Code::kRemoteError,
                      "it says that it is rank %u and looks for rank %u of another communicator", hello.rank,
                      hello.peer);
  if (hello.rank >= hello.peer || hello.streams == 0 || hello.streams > kMaxStreams ||
      hello.stream >= hello.streams)
    return makeStatus(Code::kRemoteError, "it says that it is rank %u with stream %u of %u", hello.rank,
                      hello.stream, hello.streams);
  return {};
}

void Reception::drop(const WatchedFd& fd, const std::string& why) const {
  options_.log.info("socket", "dropped a connection from %s: %s", peerEndpoint(fd.get()).text().c_str(),
                    why.c_str());
}

std::optional<Guest> Reception::takeGuest(int rank, const Instance& instance, int number) {
  const auto found = std::find_if(parked_.begin(), parked_.end(), [&](const Guest& guest) {
    return guest.hello.rank == static_cast<uint32_t>(rank) && guest.hello.instance == instance &&
           guest.hello.number == number;
  });
  if (found == parked_.end()) return std::nullopt;
  Guest guest = std::move(*found);
  parked_.erase(found);
  return guest;
}

}  // namespace horing::tcp
