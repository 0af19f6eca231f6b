#include "control/control_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/proof.h"

namespace horing {

namespace {

// Bounds one call of progress(), so that a peer that sends without end does not starve the other connections.
constexpr int kReadsPerProgress = 16;
constexpr size_t kReadBytes = 64 * 1024;
constexpr std::byte kLastFrame{0};
constexpr std::byte kMoreFrames{1};

}  // namespace

void tuneControlSocket(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
  // Packets lost during an outage are sent again soon after it, rather than at growing intervals: liveness (control/liveness.h)
  // waits only a few seconds.
  set(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
}

ControlChannel::ControlChannel(Fd fd, const Key& key, HandshakeRole role, size_t max_message_bytes)
    : fd_(std::move(fd)), max_message_bytes_(max_message_bytes) {
  handshake_.emplace(HandshakeOptions{key, role, {}, {}});
}

Status ControlChannel::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  return status_;
}

Status ControlChannel::broken(int error_number) {
  // A write fails with EPIPE if the other end closed earlier.
  broke_ = error_number != EPIPE;
  return systemError(error_number, "the control connection broke");
}

Status ControlChannel::progress() {
  // Data after the proof is read in the next call: a connection that ends right after the proof has not failed the proof.
  if (handshake_) return fail(prove());
  // Reading comes first, and continues after a failed write: the peer's last message explains more than "broken pipe".
  const Status read = closed_ ? status_ : readSome();
  if (!read.ok()) return fail(read);
  return flush();
}

Status ControlChannel::prove() {
  const ProofProgress proof = driveProof(fd_.get(), *handshake_);
  if (proof.state == ProofState::kLost) {
    closed_ = true;
    if (proof.error != 0) return broken(proof.error);
  }
  if (proof.state != ProofState::kProven) return proof.why;
  sealed_.emplace(handshake_->sendKey(), handshake_->receiveKey(), kControlFrameBytes);
  handshake_.reset();
  return {};
}

Status ControlChannel::readSome() {
  std::array<std::byte, kReadBytes> buffer;
  for (int reads = 0; reads < kReadsPerProgress; ++reads) {
    const ssize_t arrived = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (arrived < 0 && errno == EINTR) continue;
    if (arrived < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return {};
    if (arrived <= 0) {
      closed_ = true;
      if (arrived < 0) return broken(errno);
      return makeStatus(Code::kRemoteError, "the control connection was closed by the other end");
    }
    HORING_TRY(take(std::span(buffer).first(static_cast<size_t>(arrived))));
    if (static_cast<size_t>(arrived) < buffer.size()) return {};
  }
  return {};
}

Status ControlChannel::take(std::span<const std::byte> arrived) {
  while (!arrived.empty()) {
    HORING_ASSIGN(const size_t used, sealed_->feed(arrived));
    arrived = arrived.subspan(used);
    if (sealed_->frameReady()) HORING_TRY(takeFrame());
  }
  return {};
}

Status ControlChannel::takeFrame() {
  const std::vector<std::byte> frame = sealed_->take();
  if (frame.empty() || (frame[0] != kLastFrame && frame[0] != kMoreFrames))
    return makeStatus(Code::kRemoteError, "a control frame of %zu bytes is malformed", frame.size());
  if (partial_.size() + frame.size() - 1 > max_message_bytes_)
    return makeStatus(Code::kRemoteError, "a control message is longer than %zu bytes", max_message_bytes_);
  partial_.insert(partial_.end(), frame.begin() + 1, frame.end());
  if (frame[0] == kLastFrame) inbox_.push_back(std::exchange(partial_, {}));
  return {};
}

Status ControlChannel::flush() {
  while (sealed_ && status_.ok()) {
    if (out_sent_ == out_.size()) {
      if (outbox_.empty()) break;
      HORING_TRY(fail(sealNext()));
    }
    const ssize_t sent =
        ::send(fd_.get(), out_.data() + out_sent_, out_.size() - out_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return fail(broken(errno));
    out_sent_ += static_cast<size_t>(sent);
  }
  return status_;
}

Status ControlChannel::sealNext() {
  const std::vector<std::byte>& message = *outbox_.front();
  const size_t piece = std::min(kControlFrameBytes - 1, message.size() - outbox_offset_);
  const bool last = outbox_offset_ + piece == message.size();
  std::vector<std::byte> text;
  text.reserve(piece + 1);
  text.push_back(last ? kLastFrame : kMoreFrames);
  text.insert(text.end(), message.begin() + static_cast<std::ptrdiff_t>(outbox_offset_),
              message.begin() + static_cast<std::ptrdiff_t>(outbox_offset_ + piece));
  out_.clear();
  out_sent_ = 0;
  const Status sealed = sealed_->seal(text, out_);
  outbox_offset_ = last ? 0 : outbox_offset_ + piece;
  if (last) outbox_.pop_front();
  return sealed;
}

void ControlChannel::hangUp() {
  [[maybe_unused]] const int done = ::shutdown(fd_.get(), SHUT_WR);
}

void ControlChannel::send(SharedMessage message) {
  HORING_CHECK(proven());
  outbox_.push_back(std::move(message));
}

std::optional<std::vector<std::byte>> ControlChannel::receive() {
  if (inbox_.empty()) return std::nullopt;
  std::vector<std::byte> message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

bool ControlChannel::wantsWrite() const {
  if (!status_.ok()) return false;
  if (handshake_) return !handshake_->pending().empty();
  return out_sent_ < out_.size() || !outbox_.empty();
}

}  // namespace horing
