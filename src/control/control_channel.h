#pragma once
// One end of a control connection: proves the key, then carries sealed messages of any length. Both ends use this class.
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/auth.h"
#include "base/fd.h"
#include "base/status.h"

namespace horing {

// A message is cut into frames with at most this much text. One byte of each frame says whether more frames follow.
inline constexpr size_t kControlFrameBytes = 32 * 1024;

// Disables Nagle's algorithm, and detects a dead machine at the other end within half a minute.
void tuneControlSocket(int fd);

using SharedMessage = std::shared_ptr<const std::vector<std::byte>>;

class ControlChannel {
 public:
  // `fd` is a non-blocking stream socket, connected or connecting. Received messages longer than `max_message_bytes` are an error.
  ControlChannel(Fd fd, const Key& key, HandshakeRole role, size_t max_message_bytes);

  // Moves as many bytes as possible in both directions; never blocks. The first error is sticky. Messages that arrived complete
  // before the error can still be received.
  Status progress();
  // The writing half of progress().
  Status flush();

  // Half-closes the connection: the other end reads the end of the stream, and can tell this from a failure.
  void hangUp();

  // The peer has proved the key; messages may be sent.
  bool proven() const { return sealed_.has_value(); }
  void allowMessageBytes(size_t max_message_bytes) { max_message_bytes_ = max_message_bytes; }
  // Queues a message. One message may be queued on many channels: each seals it piece by piece as its socket takes it.
  void send(SharedMessage message);
  std::optional<std::vector<std::byte>> receive();

  // Data waits for the socket to become writable.
  bool wantsWrite() const;
  // The peer ended the stream, or the connection broke: nothing more will arrive.
  bool closed() const { return closed_; }
  // The connection was ended by the network, or by a destroyed socket (`ss -K`); the process at the other end may be alive, since
  // the kernel closes the connections of a process that ends in order.
  bool broke() const { return broke_; }
  // At least one byte of the peer has arrived.
  bool heard() const { return !handshake_ || handshake_->heard(); }
  const Status& status() const { return status_; }
  int fd() const { return fd_.get(); }

 private:
  Status fail(Status status);
  Status broken(int error_number);
  Status prove();
  Status readSome();
  Status take(std::span<const std::byte> arrived);
  Status takeFrame();
  Status sealNext();

  Fd fd_;
  std::optional<Handshake> handshake_;   // until proven
  std::optional<SealedChannel> sealed_;  // from then on
  size_t max_message_bytes_;
  Status status_;
  bool closed_ = false;
  bool broke_ = false;

  std::deque<SharedMessage> outbox_;
  size_t outbox_offset_ = 0;    // into the first message
  std::vector<std::byte> out_;  // sealed, not yet taken by the socket
  size_t out_sent_ = 0;

  std::vector<std::byte> partial_;  // frames of a message that is not complete
  std::deque<std::vector<std::byte>> inbox_;
};

}  // namespace horing
