#include "transport/socket/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/socket/tuning.h"

namespace horing::tcp {

namespace {
constexpr int64_t kFirstPauseMs = 10;
constexpr int64_t kLongestPauseMs = 1000;
// A busy rank accepts nothing: probes must not fill its queue of connections.
constexpr int64_t kLongestProbePauseMs = 4000;
constexpr int64_t kNsPerMs = 1'000'000;
// The kernel would try again only after 1, 3, 7 s; an outage may end sooner.
constexpr int64_t kFirstAnswerMs = 500;
constexpr int64_t kLongestAnswerMs = 8000;
// Handshake bytes without an acknowledgement for this long are lost.
constexpr int kUnansweredMs = 5000;
// A port that refuses: its process is dead, or about to listen again.
constexpr int64_t kRefusedMs = 1000;
constexpr int64_t kUnreachableMs = 10'000;
}  // namespace

FrameHeader refusalOf(const LinkShape& mine) {
  return {.bytes = 0,
          .channel = static_cast<uint16_t>(mine.channels),
          .kind = FrameKind::kRefused,
          .tag = mine.slots,
          .sequence = mine.slot_bytes,
          .credit = 0};
}

Status Dial::progress() {
  const int64_t now_ns = clock_.nowNs();
  // Time with a connection, and time in which progress() was not called, do not count as time without an answer.
  const bool away = now_ns - looked_ns_ >= kRefusedMs * kNsPerMs;
  if (away || stage_ == Stage::kProving || stage_ == Stage::kAwaitingReady) startPatience();
  looked_ns_ = now_ns;
  if (machineAnswers()) reached_ns_ = now_ns;
  if (stage_ == Stage::kConnecting && !has_event_ && now_ns >= attempt_until_ns_) {
    ++unanswered_;
    refused_from_ns_ = INT64_MAX;
    rest(makeStatus(Code::kTimeout, "no answer"));
    askMachine();
  }
  if (stage_ == Stage::kResting && now_ns >= next_attempt_ns_) HORING_TRY(begin());
  if (!std::exchange(has_event_, false)) return {};
  if (stage_ == Stage::kConnecting) checkConnected();
  if (stage_ == Stage::kProving) prove();
  if (stage_ == Stage::kAwaitingReady) HORING_TRY(awaitReady());
  return {};
}

Status Dial::begin() {
  ++attempts_;
  ++options_.hello.attempt;
  // An error of this machine, such as a lack of descriptors (ulimit -n), would occur again: waiting for the network is useless.
  HORING_ASSIGN(Fd opened, openSocket(options_.to.address.family));
  fd_ = WatchedFd(std::move(opened), poller_);
  HORING_TRY(tuneSocket(fd_.get()));
  HORING_TRY(fd_.watch(kSocketEvents, *this));
  if (const Status begun = tryConnect(); !begun.ok()) rest(begun);
  return {};
}

Status Dial::tryConnect() {
  // From the chosen interface; connect() picks the port, so that one port can serve several destinations.
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  const SockAddr from = toSockAddr({.address = options_.from, .port = 0});
  if (::bind(fd_.get(), from.get(), from.length) != 0)
    return systemError(errno, "use the local address %s", options_.from.text().c_str());
  if (const int error = beginConnect(fd_.get(), options_.to); error != 0) return connectFailed(error);
  setUserTimeout(kUnansweredMs);
  stage_ = Stage::kConnecting;
  attempt_until_ns_ =
      clock_.nowNs() + std::min(kFirstAnswerMs << std::min(unanswered_, 10), kLongestAnswerMs) * kNsPerMs;
  if (attempts_ == 1) obstacle_ = "connecting";  // later, what the attempt before met with says more
  has_event_ = true;
  return {};
}

void Dial::hurry() {
  const int64_t now_ns = clock_.nowNs();
  unanswered_ = 0;
  pause_ms_ = 0;
  next_attempt_ns_ = std::min(next_attempt_ns_, now_ns);
  attempt_until_ns_ = std::min(attempt_until_ns_, now_ns + kFirstAnswerMs * kNsPerMs);
}

void Dial::setUserTimeout(int timeout_ms) {
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

void Dial::startPatience() {
  reached_ns_ = unconnected_from_ns_ = clock_.nowNs();
  refused_from_ns_ = INT64_MAX;
}

WatchedFd Dial::take() {
  setUserTimeout(0);  // see tuning.h
  return std::move(fd_);
}

int64_t Dial::unreachableMs() const {
  return isConnecting() ? (clock_.nowNs() - reached_ns_) / kNsPerMs : 0;
}

int64_t Dial::unconnectedMs() const {
  return isConnecting() ? (clock_.nowNs() - unconnected_from_ns_) / kNsPerMs : 0;
}

int64_t Dial::silentMs() const {
  if (stage_ == Stage::kMisled) return INT64_MAX;
  const bool refused = stage_ == Stage::kResting && refused_from_ns_ != INT64_MAX;
  return std::max(unreachableMs(), refused ? (clock_.nowNs() - refused_from_ns_) / kNsPerMs : 0);
}

Status Dial::hopeless() const {
  const int64_t now_ns = clock_.nowNs();
  if (!isConnecting()) return {};
  const bool refused = refused_from_ns_ != INT64_MAX && now_ns - refused_from_ns_ >= kRefusedMs * kNsPerMs;
  const bool unreachable = now_ns - reached_ns_ >= kUnreachableMs * kNsPerMs;
  const bool deaths_are_told = options_.deaths_are_told && options_.deaths_are_told();
  if (!unreachable && (!refused || deaths_are_told)) return {};
  return makeStatus(Code::kRemoteError, "%s", obstacle_.c_str());
}

// The peer may have accepted the connection already: a reset tells it that this process goes on.
void Dial::hangUp() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  fd_.reset();
}

// Each wait is a little longer than the one before.
void Dial::rest(const Status& why) {
  hangUp();
  handshake_.reset();
  stage_ = Stage::kResting;
  const bool probes = options_.purpose == DialOptions::Purpose::kProbe;
  pause_ms_ = std::clamp(2 * pause_ms_, kFirstPauseMs, probes ? kLongestProbePauseMs : kLongestPauseMs);
  next_attempt_ns_ = clock_.nowNs() + pause_ms_ * kNsPerMs;
  obstacle_ = formatString("%s (attempt %d)", why.message().c_str(), attempts_);
}

Status Dial::connectFailed(int error) {
  if (error != ECONNREFUSED) {
    refused_from_ns_ = INT64_MAX;
    return systemError(error, "connect");
  }
  reached_ns_ = clock_.nowNs();  // the machine answers
  if (refused_from_ns_ == INT64_MAX) {
    refused_from_ns_ = reached_ns_;
    pause_ms_ = 0;  // try again soon
  }
  return systemError(error, "connect");
}

// A kernel drops connection attempts when the accept queue of a process is full, but it still answers a datagram to a closed port.
// A machine that answers has a busy process; one that does not is down or cut off.
void Dial::askMachine() {
  const SockAddr from = toSockAddr({.address = options_.from, .port = 0}), to = toSockAddr(options_.to);
  question_.reset(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool asked = question_.valid() && ::bind(question_.get(), from.get(), from.length) == 0 &&
                     ::connect(question_.get(), to.get(), to.length) == 0 &&
                     ::send(question_.get(), nullptr, 0, MSG_DONTWAIT) == 0;
  if (!asked) question_.reset();
}

bool Dial::machineAnswers() const {
  std::byte nothing;
  return question_.valid() && ::recv(question_.get(), &nothing, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED;
}

void Dial::checkConnected() {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    unanswered_ = 0;
    return rest(connectFailed(error));
  }
  if (peerEndpoint(fd_.get()).port == 0) return;  // not connected yet
  unanswered_ = 0;
  startPatience();
  if (options_.purpose == DialOptions::Purpose::kProbe) {
    pause_ms_ = std::max(pause_ms_, kLongestPauseMs / 2);
    return rest(makeStatus(Code::kRemoteError, "it listens, but has not connected again yet"));
  }
  HandshakeOptions proof{.key = options_.key, .role = HandshakeRole::kConnector};
  const auto hello = std::as_bytes(std::span(&options_.hello, 1));
  proof.hello.assign(hello.begin(), hello.end());
  handshake_ = std::make_unique<Handshake>(proof);
  stage_ = Stage::kProving;
  obstacle_ = "connected, but the process there does not answer";
}

void Dial::giveUp(const Status& why) {
  hangUp();
  stage_ = Stage::kMisled;
  misled_ = why;
  obstacle_ = why.message();
}

void Dial::prove() {
  const ProofProgress proof = driveProof(fd_.get(), *handshake_);
  if (proof.state == ProofState::kRefused) return giveUp(proof.why);
  if (proof.state == ProofState::kLost) rest(proof.why);
  if (proof.state != ProofState::kProven) return;
  AcceptorHello hello;
  const std::vector<std::byte>& said = handshake_->peerHello();
  if (said.size() != sizeof hello)
    return giveUp(makeStatus(Code::kRemoteError, "the peer's greeting has %zu bytes", said.size()));
  std::memcpy(&hello, said.data(), sizeof hello);
  if (hello.rank != options_.hello.peer || hello.instance != options_.hello.peer_instance)
    return giveUp(makeStatus(
        Code::kRemoteError, "that address belongs to rank %u, or to another communicator of it", hello.rank));
  handshake_.reset();
  stage_ = Stage::kAwaitingReady;
  reply_bytes_ = 0;
  obstacle_ = "connected, but that rank has not begun this link yet";
}

Status Dial::awaitReady() {
  const ProofProgress reading = readExactly(fd_.get(), reply_, reply_bytes_);
  if (reading.state == ProofState::kLost) rest(reading.why);
  if (reading.state != ProofState::kProven) return {};
  FrameHeader header;
  std::memcpy(&header, reply_.data(), sizeof header);
  HORING_TRY(checkReady(header));
  stage_ = Stage::kReady;
  return {};
}

Status Dial::checkReady(const FrameHeader& header) const {
  const ConnectorHello& mine = options_.hello;
  if (header.kind == FrameKind::kRefused) {
    const LinkShape own{
        .channels = static_cast<int>(mine.channels), .slots = mine.slots, .slot_bytes = mine.slot_bytes};
    const LinkShape theirs{.channels = header.channel,
                           .slots = static_cast<uint32_t>(header.tag),
                           .slot_bytes = static_cast<uint32_t>(header.sequence)};
    return linkShapeMismatch(static_cast<int>(mine.rank), own, static_cast<int>(mine.peer), theirs);
  }
  if (header.kind != FrameKind::kReady || header.bytes != 0 || header.channel != 0)
    return makeStatus(Code::kRemoteError, "the peer's first frame is of kind %u",
                      static_cast<unsigned>(header.kind));
  return {};
}

}  // namespace horing::tcp
