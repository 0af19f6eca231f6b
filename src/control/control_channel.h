#pragma once
// One end of a control connection: proves the key, then carries messages of any length, sealed. Used by both
// ends.
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

// A message is cut into frames of at most this much text, one byte of which says whether more follows.
inline constexpr size_t kControlFrameBytes = 32 * 1024;

// No delay, and a dead machine at the other end is noticed within half a minute.
void tuneControlSocket(int fd);

using SharedMessage = std::shared_ptr<const std::vector<std::byte>>;

class ControlChannel {
 public:
  // `fd` is a non-blocking stream socket, connected or about to be. Longer messages than `max_message_bytes`
  // are refused when they arrive.
  ControlChannel(Fd fd, const Key& key, HandshakeRole role, size_t max_message_bytes);

  // Moves what can be moved in both directions; never blocks. The first error is sticky. Messages that
  // arrived complete before it can still be received.
  Status progress();
  // The part of progress() that writes.
  Status flush();

  // Ends this end's part: the other one reads the end of the stream, and knows that this one has not just broken.
  void hangUp();

  // The peer has proved the key; messages may be sent from then on.
  bool proven() const { return sealed_.has_value(); }
  void allowMessageBytes(size_t max_message_bytes) { max_message_bytes_ = max_message_bytes; }
  // Queues a message. One message may be queued on many channels: it is sealed piece by piece as the socket
  // takes it.
  void send(SharedMessage message);
  std::optional<std::vector<std::byte>> receive();

  // Something waits until the socket is writable.
  bool wantsWrite() const;
  // The peer ended the stream, or it broke: nothing more will arrive.
  bool closed() const { return closed_; }
  // It ended by a failure of the network, or because somebody destroyed the socket: the process at the other end, whose end
  // closes connections in order, may well live.
  bool broke() const { return broke_; }
  // At least one byte of the peer has arrived.
  bool heard() const { return heard_; }
  const Status& status() const { return status_; }
  int fd() const { return fd_.get(); }

 private:
  Status fail(Status status);
  Status broken(int error_number);
  Status readSome();
  Status take(std::span<const std::byte> arrived);
  Status takeFrame();
  Status writeHandshake();
  Status sealNext();

  Fd fd_;
  std::optional<Handshake> handshake_;   // until proven
  std::optional<SealedChannel> sealed_;  // from then on
  size_t max_message_bytes_;
  Status status_;
  bool closed_ = false;
  bool broke_ = false;
  bool heard_ = false;

  std::deque<SharedMessage> outbox_;
  size_t outbox_offset_ = 0;    // into the first message
  std::vector<std::byte> out_;  // sealed, not yet taken by the socket
  size_t out_sent_ = 0;

  std::vector<std::byte> partial_;  // frames of a message that is not complete
  std::deque<std::vector<std::byte>> inbox_;
};

}  // namespace horing
