#include "control/control_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace horing {
namespace {

// Both ends of one connection, driven in turn.
struct Pair {
  explicit Pair(size_t max_message_bytes) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    const Key key = Key::random();
    connector =
        std::make_unique<ControlChannel>(Fd(fds[0]), key, HandshakeRole::kConnector, max_message_bytes);
    acceptor = std::make_unique<ControlChannel>(Fd(fds[1]), key, HandshakeRole::kAcceptor, max_message_bytes);
    move();
    EXPECT_TRUE(connector->proven() && acceptor->proven());
  }

  // Until nothing moves any more.
  void move() {
    for (int turn = 0; turn < 200; ++turn) {
      [[maybe_unused]] const Status one = connector->progress();
      [[maybe_unused]] const Status other = acceptor->progress();
    }
  }

  std::unique_ptr<ControlChannel> connector;
  std::unique_ptr<ControlChannel> acceptor;
};

SharedMessage messageOf(size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(i ^ (i >> 8));
  return std::make_shared<const std::vector<std::byte>>(std::move(message));
}

TEST(ControlChannel, CarriesMessagesOfAnyLengthInOrder) {
  constexpr size_t kLimit = 300'000;
  const size_t sizes[] = {1,
                          0,
                          kControlFrameBytes - 2,
                          kControlFrameBytes - 1,
                          kControlFrameBytes,
                          2 * (kControlFrameBytes - 1),
                          kLimit};
  Pair pair(kLimit);
  for (const size_t size : sizes) pair.connector->send(messageOf(size));
  pair.move();
  for (const size_t size : sizes) EXPECT_EQ(pair.acceptor->receive(), *messageOf(size)) << size;
  EXPECT_FALSE(pair.acceptor->receive().has_value());
  EXPECT_TRUE(pair.acceptor->status().ok());
}

TEST(ControlChannel, RefusesALongerMessageBeforeItIsComplete) {
  for (const size_t limit : {size_t{0}, size_t{100}, kControlFrameBytes + 5}) {
    Pair pair(limit);
    pair.connector->send(messageOf(limit + 1));
    pair.move();
    EXPECT_FALSE(pair.acceptor->receive().has_value());
    EXPECT_EQ(pair.acceptor->status().code(), Code::kRemoteError) << limit;
  }
}

TEST(ControlChannel, DeliversWhatCameBeforeTheEnd) {
  Pair pair(100);
  pair.connector->send(messageOf(7));
  EXPECT_TRUE(pair.connector->flush().ok());
  pair.connector.reset();
  for (int turn = 0; turn < 10 && pair.acceptor->progress().ok();) ++turn;
  EXPECT_TRUE(pair.acceptor->closed());
  EXPECT_EQ(pair.acceptor->receive(), *messageOf(7));
}

TEST(ControlChannel, RefusesWordsBeforeTheProof) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const Fd stranger(fds[0]);
  ControlChannel acceptor(Fd(fds[1]), Key::random(), HandshakeRole::kAcceptor, 100);
  ASSERT_EQ(::send(stranger.get(), "hello", 5, 0), 5);
  EXPECT_EQ(acceptor.progress().code(), Code::kRemoteError);
  EXPECT_TRUE(acceptor.heard());
  EXPECT_FALSE(acceptor.proven());
}

}  // namespace
}  // namespace horing
