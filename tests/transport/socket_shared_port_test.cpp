// Several transports of one process share one port, and each connection finds its transport.
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <thread>

#include "../open_descriptors.h"
#include "base/shared_listener.h"
#include "socket_peers.h"

namespace horing::testing {
namespace {

using SharedPort = Socket;
using test::openDescriptors;

TEST_F(SharedPort, TakesNoDescriptorForAnIdleTransport) {
  const auto first = makeRank(options(0));
  const int before = openDescriptors();
  std::vector<std::unique_ptr<Transport>> idle;
  for (int rank = 1; rank < 300; ++rank) idle.push_back(makeRank(options(rank)));
  for (const auto& rank : idle) {
    EXPECT_EQ(publishedBy(*rank).port, publishedBy(*first).port);
    ASSERT_TRUE(rank->progress().ok());
  }
  EXPECT_EQ(openDescriptors(), before);
  expectWorking(*first, *idle[0]);
}

TEST_F(SharedPort, IsOpenedAfreshWhenNobodyUsesIt) {
  const int before = openDescriptors();
  auto rank = makeRank(options(0));
  EXPECT_GT(openDescriptors(), before);
  rank.reset();
  EXPECT_EQ(openDescriptors(), before);
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  expectWorking(*low, *high);
}

// The owner may sleep while another one accepts for it.
TEST_F(SharedPort, NotifiesTheOwnerOfAConnectionThatAnotherAccepts) {
  const ListenerName name{std::byte{1}}, other_name{std::byte{2}};
  const auto mine = NamedListener::open({}, 0, name).take(),
             other = NamedListener::open({}, 0, other_name).take();
  ASSERT_EQ(mine->port(), other->port());
  int waiting = -1;
  mine->onWaiting([&](int fd) { waiting = fd; });
  Client client(mine->port());
  const Handshake handshake(
      {.key = key_, .role = HandshakeRole::kConnector, .hello = Bytes(name.begin(), name.end())});
  // In two parts; the first does not contain the name.
  client.say(handshake.pending().first(50));
  pollfd item{.fd = other->fd(), .events = POLLIN, .revents = 0};
  const auto look = [&] {
    EXPECT_EQ(::poll(&item, 1, 1000), 1);
    return other->take(clock_.nowNs(), Log()).connections.size();
  };
  EXPECT_EQ(look(), 0u);
  EXPECT_EQ(waiting, -1);
  EXPECT_EQ(other->unnamed(), 1u);
  EXPECT_EQ(other->take(clock_.nowNs(), Log()).connections.size(), 0u);
  EXPECT_EQ(::poll(&item, 1, 0), 0) << "nothing new";
  client.say(handshake.pending().subspan(50));
  EXPECT_EQ(look(), 0u);
  EXPECT_GE(waiting, 0);
  const NamedListener::Arrivals arrivals = mine->take(clock_.nowNs(), Log());
  ASSERT_EQ(arrivals.connections.size(), 1u);
  EXPECT_EQ(arrivals.connections.front().get(), waiting);
  Bytes said(handshake.pending().size() + 1);
  EXPECT_EQ(::recv(waiting, said.data(), said.size(), 0), static_cast<ssize_t>(handshake.pending().size()))
      << "nobody has taken anything of it";
}

// Only one of two transports is driven, for as long as it takes the peer of the other one to come.
TEST_F(SharedPort, KeepsConnectionsUntilTheirOwnerTakesThem) {
  const auto low = makeRank(options(0)), high = makeRank(options(1)), other = makeRank(options(2));
  Result<Link*> a = low->connect(1, high->address(), kFakeShape);
  ASSERT_TRUE(a.ok());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(low->progress().ok() && other->progress().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(a.value()->describe().find("does not answer"), std::string::npos) << a.value()->describe();
  Result<Link*> b = high->connect(0, low->address(), kFakeShape);
  ASSERT_TRUE(b.ok());
  EXPECT_TRUE(pumpUntil({low.get(), high.get()},
                        [&] { return a.value()->established() && b.value()->established(); }));
}

TEST_F(SharedPort, ClosesTheConnectionsOfAnOwnerThatLeavesAndNoOthers) {
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  auto leaving = makeRank(options(3));
  const tcp::Published gone = publishedBy(*leaving);
  Client client(gone.port);
  tcp::ConnectorHello hello = goodHello(gone, fakePublished(1));
  hello.peer = 3;
  const HandshakeOptions proof{.key = key_, .role = HandshakeRole::kConnector, .hello = bytesOf(hello)};
  const Handshake handshake(proof);
  client.say(handshake.pending());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(low->progress().ok());
  EXPECT_TRUE(client.listen()) << "it waits";
  leaving.reset();
  EXPECT_TRUE(pumpUntil({low.get()}, [&] { return !client.listen(); }));
  // A peer that comes too late holds the key, and learns that the rank there is another one.
  Client late(gone.port);
  late.prove(*low, proof);
  EXPECT_TRUE(pumpUntil({low.get()}, [&] { return !late.listen(); }));
  expectWorking(*low, *high);
}

TEST_F(SharedPort, OpensNothingForStrangersOfAnIdleTransport) {
  const auto idle = makeRank(options(0));
  Client stranger(publishedBy(*idle).port);
  const int before = openDescriptors();
  const std::string request = "GET / HTTP/1.1" + std::string(100, ' ');
  stranger.say(std::as_bytes(std::span(request)));
  EXPECT_TRUE(pumpUntil({idle.get()}, [&] { return !stranger.listen(); }));
  EXPECT_EQ(openDescriptors(), before);
}

TEST_F(SharedPort, ClosesConnectionsThatItHasNoDescriptorsFor) {
  const auto idle = makeRank(options(0));
  const Handshake handshake({.key = key_,
                             .role = HandshakeRole::kConnector,
                             .hello = bytesOf(goodHello(publishedBy(*idle), fakePublished(1)))});
  Client client(publishedBy(*idle).port);
  client.say(handshake.pending());
  const int before = openDescriptors();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = ::dup(STDIN_FILENO);
  ::close(next);
  const rlimit one_more{static_cast<rlim_t>(next) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  EXPECT_TRUE(pumpUntil({idle.get()}, [&] { return !client.listen(); }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(openDescriptors(), before);
}

TEST_F(SharedPort, HoldsABoundedNumberOfConnectionsThatWait) {
  const auto low = makeRank(options(0)), high = makeRank(options(1)), busy = makeRank(options(3));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Handshake handshake({.key = Key::random(),
                             .role = HandshakeRole::kConnector,
                             .hello = bytesOf(goodHello(publishedBy(*busy), fakePublished(1)))});
  std::vector<std::unique_ptr<Client>> crowd;
  const int before = openDescriptors();
  for (size_t i = 0; i < kMaxWaitingConnections + 50; ++i) {
    crowd.push_back(std::make_unique<Client>(publishedBy(*busy).port));
    crowd.back()->say(handshake.pending());
    ASSERT_TRUE(low->progress().ok());
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(low->progress().ok());
  EXPECT_LE(openDescriptors() - before, static_cast<int>(crowd.size() + kMaxWaitingConnections) + 2);
  EXPECT_FALSE(crowd.front()->listen());
  EXPECT_TRUE(crowd.back()->listen());
  expectWorking(*low, *high);
}

// The lock of its parent's may be held for ever by a thread that it does not have.
TEST_F(SharedPort, OfAForkedChildIsItsOwn) {
  Fd::closeInForkedChildren();
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over) [[maybe_unused]] const Status moved = low->progress();
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      const auto mine = makeRank(options(0));
      const bool differs = publishedBy(*mine).port != publishedBy(*high).port;
      [[maybe_unused]] const Status moved = high->progress();
      ::_exit(differs && mine->progress().ok() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over = true;
  busy.join();
  expectWorking(*low, *high);
}

// Groups that threads make and use at once.
TEST_F(SharedPort, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const auto low = makeRank(options(0)), high = makeRank(options(1));
        expectWorking(*low, *high);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace horing::testing
