#include "base/auth.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace horing {

namespace {

static_assert(std::endian::native == std::endian::little,
              "wire formats are little-endian and copied as they are");

constexpr std::array<unsigned char, 8> kMagic = {0xb7, 'h', 'o', 'r', 'i', 'n', 'g', '\n'};
constexpr size_t kVersionedBytes = 16;  // magic and both versions: never changes
constexpr size_t kPrefixBytes = 24;     // ... kind and length of the body
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;

enum Kind : uint32_t { kOpening = 1, kAnswer = 2, kProof = 3, kRefusal = 4 };

// sodium_init() is thread-safe and idempotent, but not free; a static keeps it to one call.
void readySodium() {
  static const bool kReady = sodium_init() >= 0;
  HORING_CHECK(kReady);
}

const unsigned char* raw(const std::byte* p) {
  return reinterpret_cast<const unsigned char*>(p);
}
unsigned char* raw(std::byte* p) {
  return reinterpret_cast<unsigned char*>(p);
}

uint32_t loadU32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void appendU32(std::vector<std::byte>& out, uint32_t value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// A keyed hash over parts, each preceded by its length, so that no two lists of parts look alike.
class Hasher {
 public:
  explicit Hasher(const Key* key) {
    readySodium();
    crypto_generichash_init(&state_, key ? raw(key->bytes.data()) : nullptr, key ? Key::kBytes : 0,
                            kMacBytes);
  }
  ~Hasher() { sodium_memzero(&state_, sizeof state_); }

  Hasher& add(std::span<const std::byte> part) {
    const uint64_t length = part.size();
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(&length), sizeof length);
    crypto_generichash_update(&state_, raw(part.data()), part.size());
    return *this;
  }
  Hasher& add(std::string_view part) { return add(std::as_bytes(std::span(part.data(), part.size()))); }

  std::array<std::byte, kMacBytes> finish() {
    std::array<std::byte, kMacBytes> out;
    crypto_generichash_final(&state_, raw(out.data()), out.size());
    return out;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace

Key::~Key() {
  sodium_memzero(bytes.data(), bytes.size());
}

Key Key::random() {
  Key key;
  randomBytes(key.bytes);
  return key;
}

Key Key::derive(std::span<const std::byte> secret, std::string_view context) {
  Key key;
  key.bytes = Hasher(nullptr).add("horing key").add(context).add(secret).finish();
  return key;
}

void randomBytes(std::span<std::byte> out) {
  readySodium();
  randombytes_buf(out.data(), out.size());
}

Handshake::Handshake(const HandshakeOptions& options)
    : options_(options),
      state_(options.role == HandshakeRole::kConnector ? State::kExpectAnswer : State::kExpectOpening) {
  HORING_CHECK_LE(options_.hello.size(), kMaxHelloBytes);
  randomBytes(own_nonce_);
  if (options_.role == HandshakeRole::kConnector) queue(own_nonce_, {}, options_.hello);
}

Handshake::~Handshake() = default;

// The fixed part of the body that is expected now; a hello makes up the rest.
size_t Handshake::fixedBytes() const {
  if (state_ == State::kExpectOpening) return kNonceBytes;
  return state_ == State::kExpectAnswer ? kNonceBytes + kMacBytes : kMacBytes;
}

size_t Handshake::bodyBytes() const {
  return loadU32(in_.data() + 20);
}

void Handshake::queue(std::span<const std::byte> first, std::span<const std::byte> second,
                      std::span<const std::byte> third) {
  const bool refusal = first.empty();
  const uint32_t kind = refusal                                     ? kRefusal
                        : options_.role == HandshakeRole::kAcceptor ? kAnswer
                        : state_ == State::kProven                  ? kProof
                                                                    : kOpening;
  append(out_, std::as_bytes(std::span(kMagic)));
  appendU32(out_, options_.versions.protocol);
  appendU32(out_, options_.versions.library);
  appendU32(out_, kind);
  appendU32(out_, static_cast<uint32_t>(first.size() + second.size() + third.size()));
  append(out_, first);
  append(out_, second);
  append(out_, third);
}

Status Handshake::fail(Status status) {
  state_ = State::kFailed;
  status_ = std::move(status);
  return status_;
}

// Judges as much of the prefix as has arrived.
Status Handshake::checkPrefix() {
  if (std::memcmp(in_.data(), kMagic.data(), std::min(in_bytes_, kMagic.size())) != 0)
    return makeStatus(Code::kRemoteError, "the other end does not speak horing's protocol");
  if (in_bytes_ < kVersionedBytes) return {};
  const Versions theirs{loadU32(in_.data() + 8), loadU32(in_.data() + 12)};
  if (theirs != options_.versions) {
    if (options_.role == HandshakeRole::kAcceptor && out_.empty()) queue({}, {}, {});
    return makeStatus(
        Code::kRemoteError,
        "peer runs horing protocol %u / library %s, this is %u / %s: install the same version everywhere",
        theirs.protocol, versionText(theirs.library).c_str(), options_.versions.protocol,
        versionText(options_.versions.library).c_str());
  }
  if (in_bytes_ < kPrefixBytes) return {};
  const uint32_t expected = state_ == State::kExpectOpening  ? kOpening
                            : state_ == State::kExpectAnswer ? kAnswer
                                                             : kProof;
  const size_t most = fixedBytes() + (state_ == State::kExpectProof ? 0 : kMaxHelloBytes);
  if (loadU32(in_.data() + 16) != expected || bodyBytes() < fixedBytes() || bodyBytes() > most)
    return makeStatus(Code::kRemoteError,
                      "handshake message of kind %u with %zu bytes, expected kind %u with %zu to %zu",
                      loadU32(in_.data() + 16), bodyBytes(), expected, fixedBytes(), most);
  return {};
}

Status Handshake::checkBody() {
  const std::span<const std::byte> body(in_.data() + kPrefixBytes, bodyBytes());
  in_bytes_ = 0;
  if (state_ == State::kExpectOpening) return acceptOpening(body);
  return state_ == State::kExpectAnswer ? acceptAnswer(body) : acceptProof(body);
}

Status Handshake::acceptOpening(std::span<const std::byte> body) {
  std::copy_n(body.begin(), kNonceBytes, peer_nonce_.begin());
  peer_hello_.assign(body.begin() + kNonceBytes, body.end());
  const Mac mac = transcriptMac("acceptor");
  queue(own_nonce_, mac, options_.hello);
  state_ = State::kExpectProof;
  return {};
}

Status Handshake::acceptAnswer(std::span<const std::byte> body) {
  std::copy_n(body.begin(), kNonceBytes, peer_nonce_.begin());
  peer_hello_.assign(body.begin() + kNonceBytes + kMacBytes, body.end());
  const Mac expected = transcriptMac("acceptor");
  if (sodium_memcmp(expected.data(), body.data() + kNonceBytes, kMacBytes) != 0)
    return makeStatus(Code::kRemoteError, "peer does not hold this job's key: it belongs to another job");
  state_ = State::kProven;
  queue(transcriptMac("connector"), {}, {});
  return {};
}

Status Handshake::acceptProof(std::span<const std::byte> body) {
  const Mac expected = transcriptMac("connector");
  if (sodium_memcmp(expected.data(), body.data(), kMacBytes) != 0)
    return makeStatus(Code::kRemoteError, "peer does not hold this job's key: it belongs to another job");
  state_ = State::kProven;
  return {};
}

Handshake::Mac Handshake::transcriptMac(std::string_view label) const {
  const bool connector = options_.role == HandshakeRole::kConnector;
  return Hasher(&options_.key)
      .add(label)
      .add(std::as_bytes(std::span(&options_.versions.protocol, 1)))
      .add(std::as_bytes(std::span(&options_.versions.library, 1)))
      .add(connector ? own_nonce_ : peer_nonce_)
      .add(connector ? peer_nonce_ : own_nonce_)
      .add(connector ? options_.hello : peer_hello_)
      .add(connector ? peer_hello_ : options_.hello)
      .finish();
}

Opening readOpening(std::span<const std::byte> said) {
  static_assert(kOpeningBytes == kPrefixBytes + kNonceBytes + sizeof(ListenerName));
  const Versions own;
  const auto differs = [&](size_t at, uint32_t expected) {
    return said.size() >= at + sizeof expected && loadU32(said.data() + at) != expected;
  };
  const bool is_stranger = std::memcmp(said.data(), kMagic.data(), std::min(said.size(), kMagic.size())) != 0;
  const bool is_short =
      said.size() >= kPrefixBytes && loadU32(said.data() + 20) < kNonceBytes + sizeof(ListenerName);
  if (is_stranger) return {Opening::State::kStranger};
  if (is_short || differs(8, own.protocol) || differs(12, own.library) || differs(16, kOpening))
    return {Opening::State::kOther};
  if (said.size() < kOpeningBytes) return {};
  Opening opening{Opening::State::kNamed};
  std::memcpy(opening.name.data(), said.data() + kPrefixBytes + kNonceBytes, sizeof opening.name);
  return opening;
}

size_t Handshake::wanted() const {
  if (state_ == State::kProven || state_ == State::kFailed) return 0;
  return in_bytes_ < kPrefixBytes ? kPrefixBytes - in_bytes_ : kPrefixBytes + bodyBytes() - in_bytes_;
}

Result<size_t> Handshake::feed(std::span<const std::byte> arrived) {
  heard_ = heard_ || !arrived.empty();
  if (state_ == State::kFailed) return status_;
  size_t consumed = 0;
  while (wanted() > 0 && consumed < arrived.size()) {
    const size_t now = std::min(wanted(), arrived.size() - consumed);
    std::copy_n(arrived.begin() + static_cast<std::ptrdiff_t>(consumed), now,
                in_.begin() + static_cast<std::ptrdiff_t>(in_bytes_));
    const bool in_prefix = in_bytes_ < kPrefixBytes;
    in_bytes_ += now;
    consumed += now;
    if (Status judged = in_prefix ? checkPrefix() : Status(); !judged.ok()) return fail(judged);
    if (in_bytes_ >= kPrefixBytes && wanted() == 0)
      if (Status judged = checkBody(); !judged.ok()) return fail(judged);
  }
  return consumed;
}

std::span<const std::byte> Handshake::pending() const {
  return std::span(out_).subspan(out_sent_);
}

void Handshake::sent(size_t bytes) {
  HORING_CHECK_LE(bytes, out_.size() - out_sent_);
  out_sent_ += bytes;
}

bool Handshake::done() const {
  return state_ == State::kProven && out_sent_ == out_.size();
}

const std::vector<std::byte>& Handshake::peerHello() const {
  HORING_CHECK(done());
  return peer_hello_;
}

Key Handshake::sendKey() const {
  HORING_CHECK(done());
  Key key;
  key.bytes =
      transcriptMac(options_.role == HandshakeRole::kConnector ? "connector sends" : "acceptor sends");
  return key;
}

Key Handshake::receiveKey() const {
  HORING_CHECK(done());
  Key key;
  key.bytes =
      transcriptMac(options_.role == HandshakeRole::kConnector ? "acceptor sends" : "connector sends");
  return key;
}

namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kTagBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;
using FrameNonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

// The number of the frame; each key serves one direction of one session, so no nonce comes twice.
FrameNonce frameNonce(uint64_t frame) {
  FrameNonce nonce{};
  std::memcpy(nonce.data(), &frame, sizeof frame);
  return nonce;
}

}  // namespace

SealedChannel::SealedChannel(const Key& send_key, const Key& receive_key, size_t max_frame_bytes)
    : send_key_(send_key), receive_key_(receive_key), max_frame_bytes_(max_frame_bytes) {
  readySodium();
  HORING_CHECK_LE(max_frame_bytes, size_t{1} << 30);
}

Status SealedChannel::seal(std::span<const std::byte> text, std::vector<std::byte>& out) {
  if (text.size() > max_frame_bytes_)
    return makeStatus(Code::kInvalidArgument, "a control message of %zu bytes exceeds the limit of %zu",
                      text.size(), max_frame_bytes_);
  const size_t at = out.size();
  out.reserve(at + kLengthBytes + text.size() + kTagBytes);  // if it throws, nothing has changed
  appendU32(out, static_cast<uint32_t>(text.size() + kTagBytes));
  out.resize(at + kLengthBytes + text.size() + kTagBytes);
  const FrameNonce nonce = frameNonce(sent_frames_++);
  std::byte* frame = out.data() + at;
  crypto_aead_chacha20poly1305_ietf_encrypt(raw(frame + kLengthBytes), nullptr, raw(text.data()), text.size(),
                                            raw(frame), kLengthBytes, nullptr, nonce.data(),
                                            raw(send_key_.bytes.data()));
  return {};
}

Result<size_t> SealedChannel::feed(std::span<const std::byte> arrived) {
  if (!status_.ok()) return status_;
  size_t consumed = 0;
  while (!ready_ && consumed < arrived.size()) {
    const size_t goal = in_.size() < kLengthBytes ? kLengthBytes : kLengthBytes + loadU32(in_.data());
    const size_t now = std::min(goal - in_.size(), arrived.size() - consumed);
    append(in_, arrived.subspan(consumed, now));
    consumed += now;
    if (in_.size() < kLengthBytes) continue;
    const size_t length = loadU32(in_.data());
    if (length < kTagBytes || length > max_frame_bytes_ + kTagBytes)
      status_ = makeStatus(Code::kRemoteError, "control frame of %zu bytes; between %zu and %zu are allowed",
                           length, kTagBytes, max_frame_bytes_ + kTagBytes);
    else if (in_.size() == kLengthBytes + length)
      status_ = open();
    if (!status_.ok()) return status_;
  }
  return consumed;
}

Status SealedChannel::open() {
  const size_t sealed = in_.size() - kLengthBytes;
  std::vector<std::byte> text(sealed - kTagBytes);
  const FrameNonce nonce = frameNonce(received_frames_++);
  if (crypto_aead_chacha20poly1305_ietf_decrypt(
          raw(text.data()), nullptr, nullptr, raw(in_.data() + kLengthBytes), sealed, raw(in_.data()),
          kLengthBytes, nonce.data(), raw(receive_key_.bytes.data())) != 0)
    return makeStatus(Code::kRemoteError,
                      "control frame %llu was altered on its way, or is not from the peer",
                      static_cast<unsigned long long>(received_frames_ - 1));
  in_ = std::move(text);
  ready_ = true;
  return {};
}

std::vector<std::byte> SealedChannel::take() {
  HORING_CHECK(ready_);
  ready_ = false;
  return std::exchange(in_, {});
}

}  // namespace horing
