#include "base/auth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace horing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytesOf(std::string_view text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return Bytes(view.begin(), view.end());
}

HandshakeOptions options(const Key& key, HandshakeRole role) {
  const bool connector = role == HandshakeRole::kConnector;
  return {.key = key, .role = role, .hello = bytesOf(connector ? "I am C" : "I am A, hello"), .versions = {}};
}

Bytes takePending(Handshake& from) {
  Bytes out(from.pending().begin(), from.pending().end());
  from.sent(out.size());
  return out;
}

// What happened when two ends talked until neither had more to say.
struct Outcome {
  Status connector;
  Status acceptor;
  Bytes said;  // everything that crossed the wire, in order
};

// Alters a byte of the exchange by its place in it.
using Tamper = std::function<std::byte(size_t place, std::byte value)>;

Outcome converse(Handshake& connector, Handshake& acceptor, size_t step, const Tamper& tamper = {}) {
  Outcome outcome;
  for (bool moved = true; moved;) {
    moved = false;
    for (auto [from, to, status] : {std::tuple(&connector, &acceptor, &outcome.acceptor),
                                    std::tuple(&acceptor, &connector, &outcome.connector)}) {
      while (!from->pending().empty() && status->ok()) {
        Bytes piece(from->pending().begin(),
                    from->pending().begin() + static_cast<long>(std::min(step, from->pending().size())));
        from->sent(piece.size());
        for (std::byte& b : piece) {
          outcome.said.push_back(b);
          if (tamper) b = tamper(outcome.said.size() - 1, b);
        }
        const Result<size_t> fed = to->feed(piece);
        if (!fed.ok()) *status = fed.status();
        moved = true;
      }
    }
  }
  return outcome;
}

TEST(Handshake, ProvesBothEndsAndAgreesOnSessionKeys) {
  const Key key = Key::random();
  for (size_t step : {size_t{1}, size_t{7}, size_t{4096}}) {
    Handshake c(options(key, HandshakeRole::kConnector));
    Handshake a(options(key, HandshakeRole::kAcceptor));
    EXPECT_FALSE(c.done() || a.done());
    const Outcome outcome = converse(c, a, step);
    ASSERT_TRUE(c.done() && a.done()) << outcome.connector.toString() << outcome.acceptor.toString();
    EXPECT_EQ(c.peerHello(), bytesOf("I am A, hello"));
    EXPECT_EQ(a.peerHello(), bytesOf("I am C"));
    EXPECT_EQ(c.sendKey().bytes, a.receiveKey().bytes);
    EXPECT_EQ(a.sendKey().bytes, c.receiveKey().bytes);
    EXPECT_NE(a.sendKey().bytes, c.sendKey().bytes);
  }
}

TEST(Handshake, LeavesLaterBytesToTheStream) {
  const Key key = Key::random();
  Handshake c(options(key, HandshakeRole::kConnector));
  Handshake a(options(key, HandshakeRole::kAcceptor));
  ASSERT_TRUE(a.feed(takePending(c)).ok());
  ASSERT_TRUE(c.feed(takePending(a)).ok());
  EXPECT_FALSE(c.done()) << "its own proof has not been handed over yet";
  Bytes proof = takePending(c);
  EXPECT_TRUE(c.done());
  const size_t length = proof.size();
  EXPECT_EQ(a.wanted(), 24u);
  const Bytes more = bytesOf("data");
  proof.insert(proof.end(), more.begin(), more.end());
  const Result<size_t> fed = a.feed(proof);
  ASSERT_TRUE(fed.ok());
  EXPECT_EQ(fed.value(), length);
  EXPECT_TRUE(a.done());
  EXPECT_EQ(a.feed(more).value(), 0u);
}

TEST(Handshake, AcceptsHellosUpToTheLimit) {
  const Key key = Key::random();
  for (size_t size : {size_t{0}, size_t{1}, kMaxHelloBytes}) {
    HandshakeOptions co = options(key, HandshakeRole::kConnector);
    HandshakeOptions ao = options(key, HandshakeRole::kAcceptor);
    co.hello.assign(size, std::byte{1});
    ao.hello.assign(size, std::byte{2});
    Handshake c(co);
    Handshake a(ao);
    converse(c, a, 100);
    ASSERT_TRUE(c.done() && a.done());
    EXPECT_EQ(a.peerHello(), co.hello);
    EXPECT_EQ(c.peerHello(), ao.hello);
  }
}

TEST(Handshake, RefusesAnotherKey) {
  Handshake c(options(Key::random(), HandshakeRole::kConnector));
  Handshake a(options(Key::random(), HandshakeRole::kAcceptor));
  const Outcome outcome = converse(c, a, 4096);
  EXPECT_EQ(outcome.connector.code(), Code::kRemoteError);
  EXPECT_NE(outcome.connector.message().find("key"), std::string::npos);
  EXPECT_FALSE(c.done() || a.done());
}

TEST(Handshake, RefusesAConnectorThatOnlyTheAcceptorProofConvinced) {
  // A connector that ignores the acceptor's messages and sends a made-up proof.
  const Key key = Key::random();
  Handshake c(options(key, HandshakeRole::kConnector));
  Handshake a(options(key, HandshakeRole::kAcceptor));
  ASSERT_TRUE(a.feed(takePending(c)).ok());
  ASSERT_TRUE(c.feed(takePending(a)).ok());
  Bytes proof = takePending(c);
  std::fill(proof.end() - 32, proof.end(), std::byte{0});
  EXPECT_EQ(a.feed(proof).status().code(), Code::kRemoteError);
  EXPECT_FALSE(a.done());
  EXPECT_FALSE(a.feed(bytesOf("x")).ok()) << "errors are sticky";
}

TEST(Handshake, NoticesAFlipOfAnyBit) {
  const Key key = Key::random();
  size_t length = 0;
  {
    Handshake c(options(key, HandshakeRole::kConnector));
    Handshake a(options(key, HandshakeRole::kAcceptor));
    length = converse(c, a, 4096).said.size();
  }
  ASSERT_GT(length, 200u);
  for (size_t place = 0; place < length; ++place) {
    for (int bit = 0; bit < 8; ++bit) {
      Handshake c(options(key, HandshakeRole::kConnector));
      Handshake a(options(key, HandshakeRole::kAcceptor));
      converse(c, a, 4096, [&](size_t at, std::byte value) {
        return at == place ? value ^ static_cast<std::byte>(1 << bit) : value;
      });
      EXPECT_FALSE(c.done() && a.done()) << "byte " << place << " bit " << bit;
    }
  }
}

TEST(Handshake, IsNotDoneWhenTruncated) {
  const Key key = Key::random();
  Handshake c(options(key, HandshakeRole::kConnector));
  Bytes opening = takePending(c);
  for (size_t cut = 0; cut < opening.size(); ++cut) {
    Handshake a(options(key, HandshakeRole::kAcceptor));
    ASSERT_TRUE(a.feed(std::span(opening).first(cut)).ok());
    EXPECT_FALSE(a.done());
    EXPECT_TRUE(a.pending().empty());
    EXPECT_GT(a.wanted(), 0u);
  }
}

TEST(Handshake, RefusesAReplayedExchange) {
  const Key key = Key::random();
  Handshake c(options(key, HandshakeRole::kConnector));
  Handshake a(options(key, HandshakeRole::kAcceptor));
  const Bytes opening = takePending(c);
  ASSERT_TRUE(a.feed(opening).ok());
  const Bytes answer = takePending(a);
  ASSERT_TRUE(c.feed(answer).ok());
  const Bytes proof = takePending(c);

  Handshake fresh_acceptor(options(key, HandshakeRole::kAcceptor));
  ASSERT_TRUE(fresh_acceptor.feed(opening).ok());
  EXPECT_FALSE(fresh_acceptor.feed(proof).ok());
  EXPECT_FALSE(fresh_acceptor.done());
  Handshake fresh_connector(options(key, HandshakeRole::kConnector));
  EXPECT_FALSE(fresh_connector.feed(answer).ok());
  EXPECT_FALSE(fresh_connector.done());
}

TEST(Handshake, RefusesItsOwnWordsReflected) {
  const Key key = Key::random();
  Handshake c(options(key, HandshakeRole::kConnector));
  EXPECT_FALSE(c.feed(takePending(c)).ok());
  // The acceptor's own proof handed back as the connector's.
  Handshake opener(options(key, HandshakeRole::kConnector));
  Handshake a(options(key, HandshakeRole::kAcceptor));
  ASSERT_TRUE(a.feed(takePending(opener)).ok());
  const Bytes answer = takePending(a);
  ASSERT_TRUE(opener.feed(answer).ok());
  Bytes proof = takePending(opener);
  std::copy_n(answer.begin() + 24 + 32, 32, proof.end() - 32);
  EXPECT_FALSE(a.feed(proof).ok());
}

TEST(Handshake, NamesTheVersionsOfAPeerThatItRefuses) {
  const Key key = Key::random();
  for (const Versions other :
       {Versions{kProtocolVersion + 1, kLibraryVersion}, Versions{kProtocolVersion, 20000}}) {
    HandshakeOptions co = options(key, HandshakeRole::kConnector);
    co.versions = other;
    Handshake c(co);
    Handshake a(options(key, HandshakeRole::kAcceptor));
    const Outcome outcome = converse(c, a, 1);
    const std::string theirs =
        formatString("protocol %u / library %s", other.protocol, versionText(other.library).c_str());
    EXPECT_NE(outcome.acceptor.message().find("peer runs horing " + theirs), std::string::npos)
        << outcome.acceptor.toString();
    EXPECT_NE(outcome.connector.message().find(
                  formatString("peer runs horing protocol %u / library 0.1.0, this is %u / %s",
                               kProtocolVersion, other.protocol, versionText(other.library).c_str())),
              std::string::npos)
        << outcome.connector.toString();
    EXPECT_FALSE(c.done() || a.done());
  }
}

TEST(Handshake, RecognisesAStrangerAtTheFirstByte) {
  for (const char* words : {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x16\x03\x01", " "}) {
    Handshake a(options(Key::random(), HandshakeRole::kAcceptor));
    const Result<size_t> fed = a.feed(bytesOf(words).empty() ? bytesOf("x") : Bytes(1, bytesOf(words)[0]));
    ASSERT_FALSE(fed.ok()) << words;
    EXPECT_NE(fed.status().message().find("does not speak"), std::string::npos);
    EXPECT_TRUE(a.pending().empty()) << "a stranger is told nothing";
  }
}

TEST(Handshake, RefusesLengthsBeyondTheLimit) {
  for (uint32_t length : {0u, 31u, 32u + 513u, 0x7fffffffu, 0xffffffffu}) {
    Handshake c(options(Key::random(), HandshakeRole::kConnector));
    Bytes opening = takePending(c);
    std::memcpy(opening.data() + 20, &length, sizeof length);
    Handshake a(options(Key::random(), HandshakeRole::kAcceptor));
    EXPECT_FALSE(a.feed(std::span(opening).first(24)).ok()) << length;
  }
}

TEST(Key, DerivesOneKeyPerSecretAndContext) {
  const Bytes secret = bytesOf("a long secret");
  EXPECT_EQ(Key::derive(secret, "a").bytes, Key::derive(secret, "a").bytes);
  EXPECT_NE(Key::derive(secret, "a").bytes, Key::derive(secret, "b").bytes);
  EXPECT_NE(Key::derive(secret, "a").bytes, Key::derive(bytesOf("another"), "a").bytes);
  // The border between context and secret counts.
  EXPECT_NE(Key::derive(bytesOf("bc"), "a").bytes, Key::derive(bytesOf("c"), "ab").bytes);
  EXPECT_NE(Key::random().bytes, Key::random().bytes);
}

TEST(Key, WipesItsBytesWhenItDies) {
  alignas(Key) std::byte memory[sizeof(Key)];
  Key* key = new (memory) Key(Key::random());
  const volatile std::byte* seen = memory;
  key->~Key();
  for (size_t i = 0; i < Key::kBytes; ++i) EXPECT_EQ(std::to_integer<int>(std::byte{seen[i]}), 0) << i;
}

constexpr size_t kFrame = 1000;

struct Channels {
  Key there = Key::random();
  Key back = Key::random();
  SealedChannel left{there, back, kFrame};
  SealedChannel right{back, there, kFrame};
};

TEST(SealedChannel, CarriesFramesInPieces) {
  Channels channels;
  Bytes wire;
  const std::vector<Bytes> texts = {bytesOf("one"), Bytes(), Bytes(kFrame, std::byte{7}), bytesOf("four")};
  for (const Bytes& text : texts) ASSERT_TRUE(channels.left.seal(text, wire).ok());
  size_t at = 0;
  for (const Bytes& text : texts) {
    while (!channels.right.frameReady()) {
      ASSERT_LT(at, wire.size());
      const Result<size_t> fed =
          channels.right.feed(std::span(wire).subspan(at, std::min<size_t>(3, wire.size() - at)));
      ASSERT_TRUE(fed.ok()) << fed.status().toString();
      at += fed.value();
    }
    EXPECT_EQ(channels.right.take(), text);
  }
  EXPECT_EQ(at, wire.size());
}

TEST(SealedChannel, RefusesAFrameBeyondTheLimitAtBothEnds) {
  Channels channels;
  Bytes wire;
  EXPECT_EQ(channels.left.seal(Bytes(kFrame + 1), wire).code(), Code::kInvalidArgument);
  EXPECT_TRUE(wire.empty());
  for (uint32_t length : {0u, 15u, uint32_t{kFrame} + 17u, 0xffffffffu}) {
    SealedChannel receiver(channels.back, channels.there, kFrame);
    Bytes header(4);
    std::memcpy(header.data(), &length, 4);
    EXPECT_EQ(receiver.feed(header).status().code(), Code::kRemoteError) << length;
  }
}

TEST(SealedChannel, NoticesAFlipOfAnyByteReplayAndReorder) {
  Channels channels;
  Bytes first;
  Bytes second;
  ASSERT_TRUE(channels.left.seal(bytesOf("first"), first).ok());
  ASSERT_TRUE(channels.left.seal(bytesOf("other"), second).ok());
  for (size_t place = 0; place < first.size(); ++place) {
    SealedChannel receiver(channels.back, channels.there, kFrame);
    Bytes altered = first;
    altered[place] ^= std::byte{0x10};
    const Result<size_t> fed = receiver.feed(altered);
    EXPECT_FALSE(fed.ok() && receiver.frameReady()) << place;
  }
  SealedChannel skipped(channels.back, channels.there, kFrame);
  EXPECT_FALSE(skipped.feed(second).ok());
  ASSERT_TRUE(channels.right.feed(first).ok());
  channels.right.take();
  EXPECT_FALSE(channels.right.feed(first).ok()) << "replayed";
  EXPECT_FALSE(channels.right.feed(second).ok()) << "errors are sticky";
  Channels mirror;
  Bytes own;
  ASSERT_TRUE(mirror.left.seal(bytesOf("mine"), own).ok());
  EXPECT_FALSE(mirror.left.feed(own).ok()) << "reflected";
}

}  // namespace
}  // namespace horing
