#include "ho_ring/duplex_stream.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

namespace horing::bench {
namespace {

in_addr loopback() {
  in_addr address{};
  inet_pton(AF_INET, "127.0.0.1", &address);
  return address;
}

const SteadyClock kClock;
Deadline soon() {
  return Deadline::after(kClock, 20'000);
}

struct Pair {
  DuplexStream left;
  DuplexStream right;
};

Pair connectedPair() {
  Result<StreamListener> left = StreamListener::open(loopback());
  Result<StreamListener> right = StreamListener::open(loopback());
  EXPECT_TRUE(left.ok() && right.ok());
  Pair pair;
  pair.left.out = connectStream(right.value().address(), soon()).take();
  pair.right.out = connectStream(left.value().address(), soon()).take();
  pair.left.in = left.value().accept(soon()).take();
  pair.right.in = right.value().accept(soon()).take();
  return pair;
}

std::vector<DuplexStream> one(DuplexStream stream) {
  std::vector<DuplexStream> streams;
  streams.push_back(std::move(stream));
  return streams;
}

TEST(Exchange, MovesAllBytesBothWaysAgainAndAgain) {
  Pair pair = connectedPair();
  const std::vector<DuplexStream> left = one(std::move(pair.left));
  const std::vector<DuplexStream> right = one(std::move(pair.right));
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{300'001}, uint64_t{20} << 20, uint64_t{0}}) {
    Status other;
    std::thread peer([&] { other = exchange(right, bytes, soon()); });
    const Status mine = exchange(left, bytes, soon());
    peer.join();
    EXPECT_TRUE(mine.ok()) << mine.toString();
    EXPECT_TRUE(other.ok()) << other.toString();
  }
  // Nothing is left over.
  char byte = 0;
  EXPECT_EQ(recv(left[0].in.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(Exchange, SaysThatThePeerIsGone) {
  Pair pair = connectedPair();
  { const DuplexStream gone = std::move(pair.right); }
  const Status status = exchange(one(std::move(pair.left)), uint64_t{64} << 20, soon());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("raw stream"), std::string::npos);
}

TEST(Exchange, EndsAtItsDeadline) {
  Pair pair = connectedPair();
  const Status status = exchange(one(std::move(pair.left)), uint64_t{64} << 20, Deadline::after(kClock, 50));
  EXPECT_EQ(status.code(), Code::kTimeout);
}

TEST(StreamListener, DropsStrangersAndWaitsOn) {
  Result<StreamListener> listener = StreamListener::open(loopback());
  ASSERT_TRUE(listener.ok());
  StreamAddress wrong = listener.value().address();
  ++wrong.token;
  const Result<Fd> stranger = connectStream(wrong, soon());
  const Result<Fd> friendly = connectStream(listener.value().address(), soon());
  ASSERT_TRUE(stranger.ok() && friendly.ok());
  const Result<Fd> accepted = listener.value().accept(soon());
  ASSERT_TRUE(accepted.ok()) << accepted.status().toString();
  ASSERT_EQ(send(friendly.value().get(), "x", 1, 0), 1);
  pollfd wait = {accepted.value().get(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 5000), 1) << "somebody else was accepted";
  char byte = 0;
  EXPECT_EQ(recv(accepted.value().get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(StreamListener, GivesUpAtTheDeadline) {
  Result<StreamListener> listener = StreamListener::open(loopback());
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener.value().accept(Deadline::after(kClock, 30)).status().code(), Code::kTimeout);
}

TEST(InterfaceAddresses, NamesTheInterfaceThatHasNone) {
  const Result<std::vector<in_addr>> lo = interfaceAddresses({"lo"});
  ASSERT_TRUE(lo.ok()) << lo.status().toString();
  EXPECT_EQ(lo.value()[0].s_addr, loopback().s_addr);
  const Result<std::vector<in_addr>> none = interfaceAddresses({"lo", "nosuch0"});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("nosuch0"), std::string::npos);
}

}  // namespace
}  // namespace horing::bench
