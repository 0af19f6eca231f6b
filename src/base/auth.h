#pragma once
// Proof that both ends of a byte stream belong to the same job, and sealed frames for what they say
// afterwards.
//
// Protocol: C (connector) and A (acceptor) share a 32-byte key K.
//   1. C -> A  prefix, nonce_c, hello_c
//   2. A -> C  prefix, nonce_a, hello_a, mac_K("acceptor", both nonces, both hellos, versions)
//   3. C -> A  prefix, mac_K("connector", the same)
// The nonces are fresh, so a recording proves nothing; the labels differ, so a reflected message proves
// nothing. The prefix {magic, protocol version, library version} is the same in every version to come: a
// stranger is recognised at its first byte and another version by name. Nothing is allocated on a length that
// the peer states before it has been bounded. The proof is about the ends, not about later bytes: whoever can
// alter packets between them can also alter what follows unsealed.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/version.h"

namespace horing {

// A secret. A value; its bytes are wiped on destruction. It has no comparison and no printing.
struct Key {
  static constexpr size_t kBytes = 32;
  std::array<std::byte, kBytes> bytes{};

  Key() = default;
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();

  // From the kernel's random source.
  static Key random();
  // The same secret and context give the same key; different contexts give unrelated keys. The secret must be
  // hard to guess: it is hashed, not stretched.
  static Key derive(std::span<const std::byte> secret, std::string_view context);
};

// Fills `out` from the kernel's random source.
void randomBytes(std::span<std::byte> out);

struct Versions {
  uint32_t protocol = kProtocolVersion;
  uint32_t library = kLibraryVersion;
  bool operator==(const Versions&) const = default;
};

inline constexpr size_t kMaxHelloBytes = 512;

enum class HandshakeRole : uint8_t { kConnector, kAcceptor };

struct HandshakeOptions {
  Key key;
  HandshakeRole role = HandshakeRole::kConnector;
  std::vector<std::byte> hello;  // this end's hello, at most kMaxHelloBytes; sent in the clear
  Versions versions;             // of this end; others only in tests
};

// Which of several listeners on one port a connection is for: the first bytes of the connector's hello.
using ListenerName = std::array<std::byte, 16>;
// Bytes of the connector's first message up to and including the name.
inline constexpr size_t kOpeningBytes = 24 + 32 + sizeof(ListenerName);
struct Opening {
  enum class State : uint8_t {
    kPartial,
    kNamed,
    kStranger,  // something else than horing
    kOther,     // another version, or a hello without a name: a Handshake says which
  };
  State state = State::kPartial;
  ListenerName name{};
};
// Of the first bytes of a connection, kOpeningBytes at most. Nothing is proven by them.
Opening readOpening(std::span<const std::byte> said);

// One end of the protocol above, without any I/O: the owner moves bytes between it and a stream until done().
// Not thread-safe. Deadlines are the owner's.
class Handshake {
 public:
  explicit Handshake(const HandshakeOptions& options);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Takes bytes that arrived; returns how many belonged to the handshake (the rest is the peer's data after it). kRemoteError,
  // sticky: a stranger, another version, or another key. pending() may then hold one last message with this end's version; sending
  // it is a courtesy.
  Result<size_t> feed(std::span<const std::byte> arrived);

  // At least one byte of the peer has come.
  bool heard() const { return heard_; }

  // Bytes to send next; valid until the next feed() or sent().
  std::span<const std::byte> pending() const;
  // The first `bytes` of pending() have been handed to the stream.
  void sent(size_t bytes);

  // The peer has proven the key, and all of this end's own proof has been handed over.
  bool done() const;
  // How many bytes this end must still read, at least; never reading more keeps later bytes in the stream.
  size_t wanted() const;
  // The peer's hello. Only when done().
  const std::vector<std::byte>& peerHello() const;
  // Keys of this session, one per direction; the peer's sendKey() is this end's receiveKey(). Only when
  // done().
  Key sendKey() const;
  Key receiveKey() const;

 private:
  enum class State : uint8_t { kExpectOpening, kExpectAnswer, kExpectProof, kProven, kFailed };
  using Mac = std::array<std::byte, 32>;

  Status fail(Status status);
  Status checkPrefix();
  Status checkBody();
  Status acceptOpening(std::span<const std::byte> body);
  Status acceptAnswer(std::span<const std::byte> body);
  Status acceptProof(std::span<const std::byte> body);
  void queue(std::span<const std::byte> first, std::span<const std::byte> second,
             std::span<const std::byte> third);
  size_t bodyBytes() const;
  size_t fixedBytes() const;
  Mac transcriptMac(std::string_view label) const;

  HandshakeOptions options_;
  State state_;
  Status status_;
  bool heard_ = false;
  std::array<std::byte, 32> own_nonce_;
  std::array<std::byte, 32> peer_nonce_{};
  std::vector<std::byte> peer_hello_;
  std::vector<std::byte> out_;
  size_t out_sent_ = 0;
  std::array<std::byte, 24 + 64 + kMaxHelloBytes> in_;
  size_t in_bytes_ = 0;
};

// Frames on a stream, which others cannot read, alter, reorder, replay or drop from the middle: u32 length, then ChaCha20-Poly1305
// ciphertext under a counter. One object per end, made from a Handshake's two keys. Not thread-safe.
class SealedChannel {
 public:
  // `max_frame_bytes` bounds the text of a frame, in both directions; both ends must agree on it.
  SealedChannel(const Key& send_key, const Key& receive_key, size_t max_frame_bytes);

  // Appends the frame that carries `text` to `out`. kInvalidArgument when it is longer than max_frame_bytes.
  Status seal(std::span<const std::byte> text, std::vector<std::byte>& out);

  // Takes bytes that arrived, up to the end of one frame; returns how many. Call again with the rest after
  // take(). kRemoteError, sticky: a frame that is too long, altered, out of order, or not from the peer.
  Result<size_t> feed(std::span<const std::byte> arrived);
  bool frameReady() const { return ready_; }
  // The text of the frame that is ready. Only when frameReady().
  std::vector<std::byte> take();

 private:
  Status open();

  Key send_key_;
  Key receive_key_;
  size_t max_frame_bytes_;
  uint64_t sent_frames_ = 0;
  uint64_t received_frames_ = 0;
  std::vector<std::byte> in_;  // length and ciphertext so far; the text once ready
  bool ready_ = false;
  Status status_;
};

}  // namespace horing
