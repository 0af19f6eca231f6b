#include "transport/socket/stream.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "transport/socket/tcp_counts.h"

namespace horing::tcp {

SocketStream::SocketStream(WatchedFd fd, FrameSink& sink, size_t number, size_t queue_frames)
    : fd_(std::move(fd)), sink_(sink), number_(number), queue_(queue_frames), staging_(kStagingBytes) {}

void SocketStream::enqueue(const FrameHeader& header, const std::byte* payload) {
  HORING_CHECK_LT(count_, queue_.size());
  queue_[(first_ + count_) % queue_.size()] = {header, payload};
  ++count_;
  queued_bytes_ += sizeof header + header.bytes;
}

void SocketStream::payloadMoved(const FrameHeader& message, const std::byte* payload) {
  for (size_t i = 0; i < count_; ++i) {
    Outgoing& frame = queue_[(first_ + i) % queue_.size()];
    if (frame.header.kind == FrameKind::kData && frame.header.channel == message.channel &&
        frame.header.sequence == message.sequence)
      frame.payload = payload;
  }
}

void SocketStream::flush() {
  while (count_ > 0 && ready_.writable && !ended()) {
    iovec parts[2 * kGather];
    size_t used = 0;
    size_t skip = first_written_;
    for (size_t i = 0; i < std::min(count_, kGather); ++i) {
      Outgoing& frame = queue_[(first_ + i) % queue_.size()];
      // A header of which a byte is sent must not change any more.
      if (i > 0 || first_written_ == 0) frame.header.credit = sink_.creditOf(frame.header.channel);
      if (skip < sizeof frame.header)
        parts[used++] = {reinterpret_cast<std::byte*>(&frame.header) + skip, sizeof frame.header - skip};
      const size_t payload_skip = skip < sizeof frame.header ? 0 : skip - sizeof frame.header;
      if (frame.header.bytes > payload_skip)
        parts[used++] = {const_cast<std::byte*>(frame.payload) + payload_skip,
                         frame.header.bytes - payload_skip};
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = used;
    const ssize_t written = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (written >= 0) {
      advanceWrite(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      ready_.writable = false;
    } else if (errno != EINTR && !(errno == EFAULT && sink_.leaveLentMemory())) {
      // What the peer sent before it closed, perhaps a goodbye, must still be read: receive() ends the stream. The kernel reports a
      // cause once, and "broken pipe" from then on.
      if (write_error_ == 0) write_error_ = errno;
      ready_ = {.readable = true, .writable = false, .hangup = true};
    }
  }
}

void SocketStream::advanceWrite(size_t written) {
  queued_bytes_ -= written;
  written += first_written_;
  while (count_ > 0) {
    const FrameHeader& header = queue_[first_].header;
    const size_t whole = sizeof header + header.bytes;
    if (written < whole) break;
    written -= whole;
    sink_.frameSent(number_, header);
    first_ = (first_ + 1) % queue_.size();
    --count_;
  }
  first_written_ = written;
}

void SocketStream::receive(size_t budget) {
  size_t total = 0;
  while (ready_.readable && !ended() && total < budget) {
    iovec parts[2];
    int used = 0;
    if (payload_left_ > 0) parts[used++] = {payload_to_, payload_left_};
    const size_t room = (incoming_.bytes >= kDirectBytes ? sizeof(FrameHeader) : kStagingBytes) - staged_;
    parts[used++] = {staging_.data() + staged_, room};
    const ssize_t got = ::readv(fd_.get(), parts, used);
    if (got > 0) {
      // Fewer bytes than requested: there were no more, and later data raises another event. The end of the stream does not.
      if (static_cast<size_t>(got) < payload_left_ + room && !ready_.hangup) ready_.readable = false;
      total += static_cast<size_t>(got);
      takeInput(static_cast<size_t>(got));
    } else if (got == 0) {
      endWith(write_error_);
    } else if (errno == EAGAIN) {
      ready_.readable = false;
      if (write_error_ != 0) endWith(write_error_);
    } else if (errno != EINTR && !(errno == EFAULT && sink_.leaveLentMemory())) {
      endWith(errno);
    }
  }
}

void SocketStream::takeInput(size_t read) {
  if (payload_left_ > 0) {
    const size_t direct = std::min(read, payload_left_);
    payload_to_ += direct;
    payload_left_ -= direct;
    read -= direct;
    if (payload_left_ == 0) sink_.endFrame(number_, incoming_);
    if (ended()) return;
  }
  staged_ += read;
  if (staged_ > 0) parseStaging();
}

void SocketStream::parseStaging() {
  size_t at = 0;
  while (staged_ - at >= sizeof(FrameHeader) && !ended()) {
    std::memcpy(&incoming_, staging_.data() + at, sizeof incoming_);
    at += sizeof incoming_;
    payload_to_ = sink_.beginFrame(number_, incoming_);
    if (!payload_to_) return abandon();
    if (incoming_.kind == FrameKind::kGoodbye) noteGoodbye();
    const size_t here = std::min<size_t>(incoming_.bytes, staged_ - at);
    std::memcpy(payload_to_, staging_.data() + at, here);
    at += here;
    payload_to_ += here;
    payload_left_ = incoming_.bytes - here;
    if (payload_left_ == 0) sink_.endFrame(number_, incoming_);
    if (ended()) return;
  }
  staged_ -= at;
  if (at > 0 && staged_ > 0) std::memmove(staging_.data(), staging_.data() + at, staged_);
}

// The peer's destructor waits until it knows that this has arrived: do not delay the acknowledgement.
void SocketStream::noteGoodbye() {
  goodbye_ = true;
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void SocketStream::endWith(int error_number) {
  char text[128];
  if (ended()) return;
  // A write fails with EPIPE if the peer has closed before.
  closed_by_peer_ = error_number == 0 || error_number == EPIPE;
  if (error_number == 0)
    why_ended_ =
        payload_left_ > 0 || staged_ > 0 ? "it was closed in the middle of a message" : "it was closed";
  else
    why_ended_ = ::strerror_r(error_number, text, sizeof text);
}

void SocketStream::abandon() {
  if (!ended()) why_ended_ = "this end gave the connection up";
  payload_left_ = 0;
  staged_ = 0;
}

void SocketStream::breakOff() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  fd_.reset();
}

namespace {

int64_t silenceIn(const tcp_info& info) {
  return std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
}

}  // namespace

void SocketStream::checkAlive(const ProbeLimit& limit) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (ended() || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  // A closed window is probed at growing intervals, so silence alone means nothing there; unanswered probes do. The same holds for
  // an idle connection, and for one whose data finds no route.
  const bool unanswered = info.tcpi_unacked > 0 || info.tcpi_probes >= limit.probes;
  if (unanswered && silenceIn(info) > limit.ms && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0))
    why_ended_ = formatString("the other machine has not answered for %u ms", info.tcpi_last_ack_recv);
}

int64_t SocketStream::silentMs() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (ended() || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return INT64_MAX;
  return silenceIn(info);
}

int SocketStream::unacknowledgedBytes() const {
  int bytes = 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (ended() || goodbye_ || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  // In any other state the peer has closed its end and reads nothing more.
  if (info.tcpi_state != TCP_ESTABLISHED || ::ioctl(fd_.get(), SIOCOUTQ, &bytes) != 0) return 0;
  return bytes;
}

StreamPace::Counts SocketStream::counts() const {
  return tcpCounts(fd_.get());
}

uint64_t SocketStream::memoryBytes() const {
  return sizeof *this + queue_.capacity() * sizeof(Outgoing) + staging_.capacity();
}

}  // namespace horing::tcp
