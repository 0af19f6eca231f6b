// What may connect to a listening port without being a rank, and ranks that misbehave after they have proved the key.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "control/control_channel.h"
#include "control/control_messages.h"
#include "control/host_addresses.h"
#include "control/root_connection.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;

Fd connectTo(const UniqueId& id) {
  const UniqueIdParts parts = decodeUniqueId(id).take();
  Fd fd = openSocket(parts.roots[0].address.family).take();
  EXPECT_EQ(beginConnect(fd.get(), parts.roots[0]), 0);
  pollfd item{fd.get(), POLLOUT, 0};
  ::poll(&item, 1, 20'000);
  return fd;
}

void say(const Fd& fd, std::span<const std::byte> bytes) {
  EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}
void say(const Fd& fd, const std::string& text) {
  say(fd, std::as_bytes(std::span(text)));
}

// Reads until the other end closes. False when it does not within 20 s.
bool isClosed(const Fd& fd) {
  const Deadline deadline = in(20'000);
  char buffer[4096];
  while (!deadline.passed()) {
    pollfd item{fd.get(), POLLIN, 0};
    ::poll(&item, 1, deadline.remainingMs());
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

// A process with its own name; `ranks` of them form the communicator.
std::vector<std::byte> welcomeBytes(int host_rank, int ranks, uint16_t return_port = 0) {
  WelcomeMessage welcome;
  welcome.return_port = return_port;
  welcome.host_rank = host_rank;
  welcome.host = {"node-a", 12, 2};
  welcome.ranks.assign(static_cast<size_t>(ranks), welcome.host);
  return encodeMessage(RootMessage(std::move(welcome)));
}

std::vector<std::byte> gatheredBytes(uint64_t exchange, int ranks) {
  GatheredMessage gathered;
  gathered.exchange = exchange;
  gathered.parts.resize(static_cast<size_t>(ranks));
  return encodeMessage(RootMessage(std::move(gathered)));
}

std::string pageOfNoise() {
  std::string noise(2000, '\0');
  randomBytes(std::as_writable_bytes(std::span(noise)));
  return noise;
}

std::unique_ptr<ControlChannel> provenChannel(const UniqueId& id) {
  return connectToRoot(decodeUniqueId(id).take(), kClock, {in(20'000)}).take();
}

void sendMessage(ControlChannel& channel, const std::vector<std::byte>& message) {
  channel.send(std::make_shared<const std::vector<std::byte>>(message));
  EXPECT_TRUE(channel.flush().ok());
}

bool isClosed(ControlChannel& channel) {
  const WaitLimit limit{in(20'000)};
  while (!channel.closed() && !limit.over()) {
    [[maybe_unused]] const Status moved = waitAndProgress(channel, limit, 1000);
  }
  return channel.closed();
}

// A whole communicator comes, speaks and leaves.
void expectServed(RootService& root) {
  inThreads(3, [&](int rank) {
    Result<std::unique_ptr<Control>> joined = Control::join(joinOptions(root.id(), rank, 3));
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    EXPECT_TRUE(joined.value()->allGather({}, in(30'000)).ok());
    joined.value()->leave();
  });
}

TEST(Strangers, ThatSpeakAnotherProtocolAreDropped) {
  const auto root = startRoot();
  for (const std::string& words :
       {std::string("GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"), std::string("\n"),
        std::string(4096, '\0'), std::string("SSH-2.0-OpenSSH_9.2\r\n")}) {
    const Fd stranger = connectTo(root->id());
    say(stranger, words);
    EXPECT_TRUE(isClosed(stranger)) << words;
  }
  for (int round = 0; round < 20; ++round) {
    const Fd stranger = connectTo(root->id());
    say(stranger, pageOfNoise());
    EXPECT_TRUE(isClosed(stranger));
  }
  expectServed(*root);
}

TEST(Strangers, ThatSayNothingDisturbNothing) {
  const auto root = startRoot();
  std::vector<Fd> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(connectTo(root->id()));
  for (int i = 0; i < 30; ++i) connectTo(root->id());
  expectServed(*root);
}

TEST(Strangers, ThatSayNothingAreDroppedInTheEnd) {
  const auto root = startRoot(60'000, 20);
  const Fd silent = connectTo(root->id());
  const Fd half = connectTo(root->id());
  say(half, "\xb7");
  const auto proven = provenChannel(root->id());
  EXPECT_TRUE(isClosed(silent));
  EXPECT_TRUE(isClosed(half));
  EXPECT_TRUE(isClosed(*proven)) << "the key alone is not enough to stay";
}

TEST(Strangers, InAnyNumberDoNotKeepRanksOut) {
  const auto root = startRoot();
  std::vector<Fd> silent;
  for (size_t i = 0; i < kMaxStrangers + 40; ++i) silent.push_back(connectTo(root->id()));
  EXPECT_TRUE(isClosed(silent.front())) << "the oldest is pushed out";
  pollfd newest{silent.back().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&newest, 1, 0), 0) << "and only as many as need be";
  expectServed(*root);
}

TEST(Strangers, ThatSaySomethingArePushedOutAfterThoseThatSayNothing) {
  const auto root = startRoot();
  Handshake handshake(
      {jobKey(decodeUniqueId(root->id()).take(), "control"), HandshakeRole::kConnector, {}, {}});
  const Fd slow = connectTo(root->id());
  say(slow, handshake.pending().first(20));
  std::vector<Fd> silent;
  for (size_t i = 0; i < kMaxStrangers + 40; ++i) silent.push_back(connectTo(root->id()));
  EXPECT_TRUE(isClosed(silent[40]));
  pollfd item{slow.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&item, 1, 0), 0) << "it may be a rank on a slow machine";
  expectServed(*root);
}

TEST(Strangers, ThatStayFromBeforeDisturbNoExchange) {
  const auto root = startRoot();
  const Fd stranger = connectTo(root->id());
  const auto controls = joinAll(root->id(), 2);
  std::thread waiting([&] { EXPECT_TRUE(controls[0]->allGather({}, in(30'000)).ok()); });
  say(stranger, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(isClosed(stranger));
  EXPECT_TRUE(controls[1]->allGather({}, in(30'000)).ok());
  waiting.join();
}

TEST(Strangers, WithAnotherVersionAreToldOurs) {
  const auto root = startRoot();
  const UniqueIdParts parts = decodeUniqueId(root->id()).take();
  Handshake other(
      {jobKey(parts, "control"), HandshakeRole::kConnector, {}, {kProtocolVersion + 1, kLibraryVersion}});
  const Fd stranger = connectTo(root->id());
  say(stranger, other.pending());
  other.sent(other.pending().size());
  std::array<std::byte, 256> answer;
  pollfd item{stranger.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&item, 1, 20'000), 1);
  const ssize_t got = ::recv(stranger.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  ASSERT_GT(got, 0);
  const Result<size_t> fed = other.feed(std::span(answer).first(static_cast<size_t>(got)));
  EXPECT_TRUE(mentions(fed.status(), "install the same version everywhere")) << fed.status().toString();
  EXPECT_TRUE(isClosed(stranger));
  expectServed(*root);
}

TEST(Strangers, AreMentionedWhenARankDoesNotArrive) {
  const auto root = startRoot();
  const Fd stranger = connectTo(root->id());
  say(stranger, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(isClosed(stranger));
  const Status status = Control::join(joinOptions(root->id(), 0, 2, kShortDeadlineMs)).status();
  EXPECT_TRUE(mentions(status, "rank 1 of 2 did not arrive") && mentions(status, "was refused"))
      << status.toString();
}

TEST(KeyHolders, ThatDoNotSayHelloAreDropped) {
  const auto root = startRoot();
  const std::vector<std::vector<std::byte>> openings = {{std::byte{0xff}},
                                                        {},
                                                        encodeMessage(RankMessage(GoodbyeMessage{})),
                                                        encodeMessage(RankMessage(GatherMessage{1, 100, {}})),
                                                        std::vector<std::byte>(maxRankMessageBytes() + 1)};
  for (const auto& opening : openings) {
    const auto channel = provenChannel(root->id());
    sendMessage(*channel, opening);
    EXPECT_TRUE(isClosed(*channel)) << opening.size();
  }
  expectServed(*root);
}

TEST(KeyHolders, ThatSendUnsealedBytesAreDropped) {
  const auto root = startRoot();
  const auto channel = provenChannel(root->id());
  const std::string noise = pageOfNoise();
  ::send(channel->fd(), noise.data(), noise.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(isClosed(*channel));
  expectServed(*root);
}

TEST(KeyHolders, ThatBreakTheProtocolAsARankAreNamedToTheOthers) {
  const auto root = startRoot();
  std::thread other([&] {
    Result<std::unique_ptr<Control>> joined = Control::join(joinOptions(root->id(), 0, 2));
    // Welcome and failure may arrive together.
    const Status status = joined.ok() ? waitForError(*joined.value()) : joined.status();
    EXPECT_TRUE(mentions(status, "rank 1 (evil, pid 666) is lost: it took part in exchange 9"))
        << status.toString();
  });
  const auto channel = provenChannel(root->id());
  sendMessage(*channel, encodeMessage(RankMessage(HelloMessage{1, 2, 20'000, {"evil", 666, 1}})));
  const WaitLimit limit{in(20'000)};
  while (!channel->receive() && !limit.over()) EXPECT_TRUE(waitAndProgress(*channel, limit, 1000).ok());
  sendMessage(*channel, encodeMessage(RankMessage(GatherMessage{9, 100, {}})));
  other.join();
}

// A listener that is not the rendezvous, for the rank's side.
class FalseRoot {
 public:
  FalseRoot() {
    const Address loopback = resolveHost({"127.0.0.1", 1}).take().front().address;
    listener_ = listenOn(&loopback, 0).take();
    parts_.key = Key::random();
    parts_.roots = {{loopback, listener_.port}};
  }
  UniqueId id() const { return encodeUniqueId(parts_).take(); }
  Fd accept() const {
    pollfd item{listener_.fd.get(), POLLIN, 0};
    ::poll(&item, 1, 20'000);
    return Fd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  uint16_t port() const { return listener_.port; }
  std::unique_ptr<ControlChannel> acceptProven(size_t max_message_bytes = 1 << 20) const {
    auto channel = std::make_unique<ControlChannel>(accept(), jobKey(parts_, "control"),
                                                    HandshakeRole::kAcceptor, max_message_bytes);
    const WaitLimit limit{in(20'000)};
    while (!channel->proven() && !limit.over()) EXPECT_TRUE(waitAndProgress(*channel, limit, 1000).ok());
    return channel;
  }

 private:
  Listener listener_;
  UniqueIdParts parts_;
};

TEST(FalseRoots, ThatSpeakAnotherProtocolAreNotBelieved) {
  const FalseRoot web;
  std::thread server([&] {
    // The rank tries again: the refusal may be from the end of another job.
    for (Fd fd = web.accept(); fd.valid(); fd = web.accept()) {
      say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
      if (isClosed(fd)) break;
    }
  });
  const Status status = Control::join(joinOptions(web.id(), 0, 1, kShortDeadlineMs)).status();
  server.join();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_TRUE(mentions(status, "does not speak horing's protocol")) << status.toString();
}

TEST(FalseRoots, ThatSayNothingEndWithTheDeadline) {
  const FalseRoot silent;
  const Status status = Control::join(joinOptions(silent.id(), 0, 1, kShortDeadlineMs)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(mentions(status, "does not answer")) << status.toString();
}

TEST(FalseRoots, ThatSendNonsenseAfterTheProofAreNamed) {
  const std::vector<std::vector<std::byte>> answers = {
      {std::byte{0x42}},
      welcomeBytes(0, 0),
      welcomeBytes(7, 1),
      gatheredBytes(1, 1),
      encodeMessage(RootMessage(ClosingMessage{})),
      encodeMessage(RootMessage(ReturnedMessage{})),  // a Returned without a Return
      std::vector<std::byte>(maxRootMessageBytes(1) + 1),
  };
  for (const auto& answer : answers) {
    const FalseRoot root;
    std::thread server([&] {
      const auto channel = root.acceptProven();
      sendMessage(*channel, answer);
      EXPECT_TRUE(isClosed(*channel));
    });
    const Status status = Control::join(joinOptions(root.id(), 0, 1)).status();
    server.join();
    EXPECT_EQ(status.code(), Code::kRemoteError) << answer.size();
    EXPECT_TRUE(mentions(status, "hosts the rendezvous")) << status.toString();
  }
}

TEST(FalseRoots, OrRealOnesMayCloseRightAfterTheWelcome) {
  const FalseRoot root;
  std::thread server([&] {
    const auto channel = root.acceptProven();
    // Leaving a word unread would reset the connection.
    const WaitLimit limit{in(20'000)};
    while (!channel->receive() && !limit.over()) EXPECT_TRUE(waitAndProgress(*channel, limit, 1000).ok());
    channel->send(std::make_shared<const std::vector<std::byte>>(welcomeBytes(0, 1)));
    sendMessage(*channel, encodeMessage(RootMessage(ClosingMessage{})));
  });
  const Result<std::unique_ptr<Control>> joined = Control::join(joinOptions(root.id(), 0, 1));
  server.join();
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  const Status status = waitForError(*joined.value());
  EXPECT_TRUE(status.ok()) << status.toString();
}

// The next message of that kind.
template <typename Message>
Message hear(ControlChannel& channel) {
  const WaitLimit limit{in(20'000)};
  do {
    while (const auto bytes = channel.receive()) {
      const RankMessage message = decodeRankMessage(*bytes).take();
      if (const Message* found = std::get_if<Message>(&message)) return *found;
    }
  } while (!limit.over() && waitAndProgress(channel, limit, 1000).ok());
  ADD_FAILURE() << "not heard";
  return {};
}

// The next words to this connection break it.
void cutOff(std::unique_ptr<ControlChannel> channel) {
  const linger abort{.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(::setsockopt(channel->fd(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort), 0);
}

TEST(FalseRoots, OrRealOnesMayBeCutOffAgainBeforeARankHasSaidTheRest) {
  const FalseRoot root;
  std::thread server([&] {
    auto channel = root.acceptProven();
    hear<BeatMessage>(*channel);
    sendMessage(*channel, welcomeBytes(0, 1, root.port()));
    hear<GatherMessage>(*channel);
    for (int cut = 0; cut < 6; ++cut) {
      cutOff(std::move(channel));
      channel = root.acceptProven();
      hear<ReturnMessage>(*channel);
      sendMessage(*channel, encodeMessage(RootMessage(ReturnedMessage{0})));
    }
    hear<GatherMessage>(*channel);
    sendMessage(*channel, gatheredBytes(1, 1));
  });
  JoinOptions options = joinOptions(root.id(), 0, 1);
  options.heartbeat_ms = 500;
  const auto joined = Control::join(options);
  if (joined.ok()) {
    const auto all = joined.value()->allGather({}, in(20'000));
    EXPECT_TRUE(all.ok()) << all.status().toString();
  }
  server.join();
  EXPECT_TRUE(joined.ok()) << joined.status().toString();
}

TEST(FalseRoots, ThatVanishAreNamed) {
  const FalseRoot root;
  std::thread server([&] { root.acceptProven(); });
  const Status status = Control::join(joinOptions(root.id(), 0, 1)).status();
  server.join();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_TRUE(mentions(status, "hosts the rendezvous") && mentions(status, "is lost")) << status.toString();
}

TEST(FalseRoots, ThatVanishLaterAreNamedWithTheirRank) {
  const FalseRoot root;
  std::thread server([&] {
    const auto channel = root.acceptProven();
    sendMessage(*channel, welcomeBytes(0, 1));
  });
  Result<std::unique_ptr<Control>> joined = Control::join(joinOptions(root.id(), 0, 1));
  server.join();
  // Its words and its end may arrive together; then joining succeeds all the same.
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  const Status status = waitForError(*joined.value());
  EXPECT_TRUE(mentions(status, "rank 0's process (node-a, pid 12), which hosts the rendezvous, is lost"))
      << status.toString();
  EXPECT_EQ(joined.value()->failedRank(), 0);
}

}  // namespace
}  // namespace horing
