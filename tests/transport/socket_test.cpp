// The socket transport among clients that are not peers, and peers that do not behave.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "allocation_counter.h"
#include "base/strangers.h"
#include "base/version.h"
#include "socket_peers.h"

namespace horing::testing {
namespace {

TEST_F(Socket, DropsStrangersAndIsNotDisturbed) {
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  const uint16_t port = publishedBy(*high).port;
  std::vector<std::unique_ptr<Client>> strangers;
  Bytes noise(5000);
  randomBytes(noise);
  for (const Bytes& words :
       {textBytes("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), noise, textBytes("\xb7horinG\n"),
        textBytes("x"), textBytes("SSH-2.0-OpenSSH_9.2\r\n")}) {
    strangers.push_back(std::make_unique<Client>(port));
    strangers.back()->say(words);
  }
  Client silent(port);
  Client gone(port);
  gone.close();
  for (auto& stranger : strangers)
    EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !stranger->listen(); }))
        << "a stranger must be sent away";
  for (auto& stranger : strangers) EXPECT_TRUE(stranger->heard().empty()) << "and told nothing";
  expectWorking(*low, *high);
  EXPECT_TRUE(silent.listen()) << "it still has time";
}

TEST_F(Socket, DropsASilentClientAtItsDeadline) {
  ManualClock clock;
  SocketOptions with_clock = options(1);
  with_clock.clock = &clock;
  const auto rank = makeRank(with_clock);
  Client silent(publishedBy(*rank).port);
  Client slow(publishedBy(*rank).port);
  slow.say(textBytes("\xb7hor"));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank->progress().ok());
  clock.advanceNs((kProofTimeoutMs - 1) * 1'000'000);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank->progress().ok());
  EXPECT_TRUE(silent.listen() && slow.listen());
  clock.advanceNs(2'000'000);
  EXPECT_TRUE(pumpUntil({rank.get()}, [&] { return !silent.listen(); }));
  EXPECT_TRUE(pumpUntil({rank.get()}, [&] { return !slow.listen(); }));
}

// A forked child holds copies of all descriptors, so that closing one here does not end it for the kernel.
TEST_F(Socket, AConnectionDroppedWhileAForkedChildHoldsItIsForgotten) {
  ManualClock clock;
  SocketOptions with_clock = options(1);
  with_clock.clock = &clock;
  const auto rank = makeRank(with_clock);
  Client silent(publishedBy(*rank).port);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rank->progress().ok());
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(gate[1]);
    char end;
    [[maybe_unused]] const ssize_t got = ::read(gate[0], &end, 1);  // until the parent is done, or dead
    ::_exit(0);
  }
  ::close(gate[0]);
  clock.advanceNs((kProofTimeoutMs + 1) * 1'000'000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rank->progress().ok());
  silent.say(textBytes("is anybody there?"));
  rank->beginWait();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(rank->progress().ok());
  pollfd event{.fd = rank->waitFd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0) << "no event for what was dropped";
  rank->endWait();
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Socket, DropsTheOldestOfTooManySilentClients) {
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  std::vector<std::unique_ptr<Client>> crowd;
  for (size_t i = 0; i < kMaxStrangers + 5; ++i) {
    crowd.push_back(std::make_unique<Client>(publishedBy(*high).port));
    for (int j = 0; j < 3; ++j) ASSERT_TRUE(high->progress().ok());
  }
  for (size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !crowd[i]->listen(); })) << i;
  for (int j = 0; j < 100; ++j) ASSERT_TRUE(high->progress().ok());
  EXPECT_TRUE(crowd[5]->listen());
  EXPECT_TRUE(crowd.back()->listen());
  expectWorking(*low, *high);
}

// A peer sends at once, so it is not among the connections that are dropped first.
TEST_F(Socket, DropsSilentClientsBeforeThoseThatSaidSomething) {
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  Handshake handshake({.key = key_, .role = HandshakeRole::kConnector, .hello = Bytes(60)});
  Client slow(publishedBy(*high).port);
  slow.say(handshake.pending().first(20));
  std::vector<std::unique_ptr<Client>> crowd;
  for (size_t i = 0; i < kMaxStrangers + 5; ++i) {
    crowd.push_back(std::make_unique<Client>(publishedBy(*high).port));
    ASSERT_TRUE(high->progress().ok());
  }
  EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !crowd[5]->listen(); }));
  EXPECT_TRUE(slow.listen());
  EXPECT_TRUE(crowd[6]->listen());
  expectWorking(*low, *high);
}

// More than the kernel keeps for a busy rank: later connections wait outside.
TEST_F(Socket, ACrowdBeforeABusyRankDoesNotKeepItsPeerOut) {
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const SockAddr to = toSockAddr({.address = {.bytes = {127, 0, 0, 1}}, .port = publishedBy(*high).port});
  std::vector<Fd> crowd;
  for (int i = 0; i < 1500; ++i) {
    crowd.push_back(openSocket(Address::Family::kIpv4).take());
    ::connect(crowd.back().get(), to.get(), to.length);
  }
  expectWorking(*low, *high);
}

// Takes all descriptors of this process while it exists.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const Fd next(::dup(0));
    rlimit less = before_;
    less.rlim_cur = static_cast<rlim_t>(next.get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &less), 0);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
};

void expectNoDescriptorFor(const Link& link) {
  EXPECT_EQ(link.status().code(), Code::kSystemError);
  const std::string& text = link.status().message();
  for (const char* part : {"rank 0", "rank 1", "ulimit -n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// This machine would refuse the same until the deadline.
TEST_F(Socket, WithoutADescriptorToConnectFailsAtOnce) {
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  const Result<Link*> link = low->connect(1, high->address(), kFakeShape);
  ASSERT_TRUE(link.ok());
  const NoMoreDescriptors none;
  EXPECT_TRUE(pumpUntil({low.get()}, [&] { return !link.value()->status().ok(); }));
  expectNoDescriptorFor(*link.value());
}

TEST_F(Socket, WithoutADescriptorToAcceptFailsAtOnce) {
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  const Result<Link*> link = high->connect(0, low->address(), kFakeShape);
  ASSERT_TRUE(link.ok());
  Client newcomer(publishedBy(*high).port);
  const NoMoreDescriptors none;
  EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !link.value()->status().ok(); }));
  expectNoDescriptorFor(*link.value());
}

TEST_F(Socket, WithItsLastDescriptorTakenAcceptsNobodyAndGoesOn) {
  const auto low = makeRank(options(0)), high = makeRank(options(1));
  const Result<Link*> link = high->connect(0, low->address(), kFakeShape);
  ASSERT_TRUE(link.ok());
  const NoMoreDescriptors none;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(high->progress().ok()) << "though nobody was turned away";
}

// A connection that has proved the key to rank 1, which has no link for it yet.
std::unique_ptr<Client> unclaimedConnection(Transport& rank, const Key& key) {
  const tcp::Published acceptor = publishedBy(rank);
  auto unclaimed = std::make_unique<Client>(acceptor.port);
  const Bytes hello = bytesOf(goodHello(acceptor, fakePublished(1)));
  EXPECT_TRUE(unclaimed->prove(rank, {.key = key, .role = HandshakeRole::kConnector, .hello = hello}));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(rank.progress().ok());
  EXPECT_TRUE(unclaimed->listen());
  return unclaimed;
}

TEST_F(Socket, GivesTheDescriptorOfAnUnclaimedConnectionToANewcomer) {
  const auto rank = makeRank(options(1));
  const auto unclaimed = unclaimedConnection(*rank, key_);
  Client newcomer(publishedBy(*rank).port);
  const NoMoreDescriptors none;
  EXPECT_TRUE(pumpUntil({rank.get()}, [&] { return !unclaimed->listen(); }));
  newcomer.say(textBytes("this is no proof, and there is enough of it to be sure of that, is there not?"));
  EXPECT_TRUE(pumpUntil({rank.get()}, [&] { return !newcomer.listen(); })) << "it was heard";
}

TEST_F(Socket, SleepsWhileItHasNoDescriptorForWhoComes) {
  const auto low = makeRank(options(0));
  const auto rank = makeRank(options(1));
  Client newcomer(publishedBy(*rank).port);
  {
    const NoMoreDescriptors none;
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(rank->progress().ok());
    int wakes = 0;
    pollfd event{.fd = rank->waitFd(), .events = POLLIN, .revents = 0};
    for (int i = 0; i < 20; ++i) {
      rank->beginWait();
      ASSERT_TRUE(rank->progress().ok());
      wakes += ::poll(&event, 1, 10);
      rank->endWait();
    }
    EXPECT_LT(wakes, 10) << "timers at most";
    EXPECT_TRUE(newcomer.listen());
  }
  expectWorking(*low, *rank);
}

TEST_F(Socket, DropsAnUnclaimedConnectionAtItsDeadline) {
  ManualClock clock;
  SocketOptions mine = options(1);
  mine.clock = &clock;
  const auto rank = makeRank(mine);
  const auto unclaimed = unclaimedConnection(*rank, key_);
  clock.advanceNs((kUnclaimedMs - 1) * 1'000'000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rank->progress().ok());
  EXPECT_TRUE(unclaimed->listen());
  clock.advanceNs(1'000'000);
  EXPECT_TRUE(pumpUntil({rank.get()}, [&] { return !unclaimed->listen(); }));
}

TEST_F(Socket, RefusesAnotherKeyAndSaysSo) {
  SocketOptions foreign = options(0);
  foreign.key = Key::random();
  const auto stranger = makeRank(foreign);
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  Result<Link*> link = stranger->connect(1, high->address(), kFakeShape);
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE(pumpUntil({stranger.get(), high.get()}, [&] { return !link.value()->status().ok(); }));
  EXPECT_EQ(link.value()->status().code(), Code::kRemoteError);
  const std::string& text = link.value()->status().message();
  for (const char* part : {"rank 0", "rank 1", "key"}) EXPECT_NE(text.find(part), std::string::npos) << text;
  expectWorking(*low, *high);
}

TEST_F(Socket, DropsHoldersOfTheKeyWithImpossibleClaims) {
  const auto low = makeRank(options(0));
  const auto high = makeRank(options(1));
  const tcp::Published acceptor = publishedBy(*high);
  using Hello = tcp::ConnectorHello;
  const std::pair<const char*, std::function<void(Hello&)>> lies[] = {
      {"another rank is meant", [](Hello& h) { h.peer = 2; }},
      {"another communicator is meant", [](Hello& h) { h.peer_instance[3] ^= std::byte{1}; }},
      {"the same rank", [](Hello& h) { h.rank = 1; }},
      {"a higher rank", [](Hello& h) { h.rank = 5; }},
      {"no streams", [](Hello& h) { h.streams = 0; }},
      {"stream out of range", [](Hello& h) { h.stream = 1; }},
      {"too many streams", [](Hello& h) { h.streams = 4000; }},
      {"impossible link number", [](Hello& h) { h.number = kMaxLinksPerPeer; }},
      {"impossible shape", [](Hello& h) { h.slot_bytes = 1u << 31; }}};
  for (const auto& [what, lie] : lies) {
    Hello hello = goodHello(acceptor, fakePublished(1));
    lie(hello);
    Client client(acceptor.port);
    EXPECT_TRUE(
        client.prove(*high, {.key = key_, .role = HandshakeRole::kConnector, .hello = bytesOf(hello)}))
        << what;
    EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !client.listen(); })) << what;
  }
  Client brief(acceptor.port);
  EXPECT_TRUE(brief.prove(*high, {.key = key_, .role = HandshakeRole::kConnector, .hello = textBytes("hi")}));
  EXPECT_TRUE(pumpUntil({high.get()}, [&] { return !brief.listen(); }));
  expectWorking(*low, *high);
}

TEST_F(Socket, RefusesAnotherVersionByName) {
  const auto high = makeRank(options(1));
  const tcp::Published acceptor = publishedBy(*high);
  Client client(acceptor.port);
  HandshakeOptions newer{.key = key_,
                         .role = HandshakeRole::kConnector,
                         .hello = bytesOf(goodHello(acceptor, fakePublished(1))),
                         .versions = {.protocol = kProtocolVersion + 1, .library = 200}};
  const std::string ours = formatString("%u / library 0.1.0", kProtocolVersion);
  const std::string theirs = formatString("%u / library 0.2.0", kProtocolVersion + 1);
  Status why;
  EXPECT_FALSE(client.prove(*high, newer, &why));
  const auto saysPeerRuns = [](const Status& status, const std::string& peer) {
    return status.message().find("peer runs horing protocol " + peer) != std::string::npos;
  };
  EXPECT_TRUE(saysPeerRuns(why, ours)) << why.toString();

  // And the other way round: this end connects to an acceptor of another version.
  Result<Listener> listening = listenOn(nullptr, 0);
  ASSERT_TRUE(listening.ok());
  const auto low = makeRank(options(0));
  const tcp::Published fake = fakePublished(listening.value().port);
  Result<Link*> link = low->connect(1, fake.encode(), kFakeShape);
  ASSERT_TRUE(link.ok());
  Fd accepted;
  ASSERT_TRUE(pumpUntil({low.get()}, [&] {
    accepted.reset(::accept(listening.value().fd.get(), nullptr, nullptr));
    return accepted.valid();
  }));
  Client server(std::move(accepted));
  newer.role = HandshakeRole::kAcceptor;
  EXPECT_FALSE(server.prove(*low, newer));
  ASSERT_TRUE(pumpUntil({low.get()}, [&] { return !link.value()->status().ok(); }));
  EXPECT_TRUE(saysPeerRuns(link.value()->status(), theirs)) << link.value()->status().toString();
}

TEST_F(Socket, TriesAgainUntilThePeerListensAndSaysWhatItWaitsFor) {
  Fd later(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof at;
  ASSERT_EQ(::bind(later.get(), reinterpret_cast<sockaddr*>(&at), length), 0);
  ASSERT_EQ(::getsockname(later.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  const auto low = makeRank(options(0));
  Result<Link*> link = low->connect(1, fakePublished(ntohs(at.sin_port)).encode(), kFakeShape);
  ASSERT_TRUE(link.ok());
  EXPECT_TRUE(pumpUntil({low.get()}, [&] {
    return link.value()->describe().find("Connection refused (attempt 3)") != std::string::npos;
  })) << link.value()->describe();
  EXPECT_NE(link.value()->describe().find("127.0.0.1"), std::string::npos) << link.value()->describe();
  ASSERT_EQ(::listen(later.get(), 1), 0);
  EXPECT_TRUE(pumpUntil({low.get()}, [&] { return Fd(::accept(later.get(), nullptr, nullptr)).valid(); }));
  // It was hung up on: that is not final either.
  EXPECT_TRUE(pumpUntil({low.get()}, [&] { return Fd(::accept(later.get(), nullptr, nullptr)).valid(); }));
  EXPECT_TRUE(link.value()->status().ok()) << link.value()->status().toString();
}

TEST_F(Socket, RefusesOptionsThatCannotBe) {
  SocketOptions bad = options(0);
  bad.interfaces = "=nosuch0";
  EXPECT_NE(makeSocketTransport(bad).status().message().find("HORING_SOCKET_IFNAME==nosuch0"),
            std::string::npos);
  bad = options(0);
  bad.family = "ipx";
  EXPECT_EQ(makeSocketTransport(bad).status().code(), Code::kInvalidArgument);
  for (int streams : {0, -1, kMaxStreamsPerPair + 1}) {
    bad = options(0);
    bad.streams = streams;
    EXPECT_EQ(makeSocketTransport(bad).status().code(), Code::kInvalidArgument) << streams;
  }
}

// Both directions at once with messages larger than the kernel's buffers: writes and reads are partial.
TEST_F(Socket, SurvivesPartialReadsAndWrites) {
  for (int streams : {1, 3}) {
    SocketOptions both[2] = {options(0), options(1)};
    for (SocketOptions& o : both) o.streams = streams;
    const auto low = makeRank(both[0]);
    const auto high = makeRank(both[1]);
    const LinkShape shape{.channels = 2, .slots = 2, .slot_bytes = kMaxSlotBytes};
    Link* ends[2] = {low->connect(1, high->address(), shape).value(),
                     high->connect(0, low->address(), shape).value()};
    ASSERT_TRUE(
        pumpUntil({low.get(), high.get()}, [&] { return ends[0]->established() && ends[1]->established(); }));
    struct Flow {
      Sender* sender;
      Receiver* receiver;
      uint32_t sent = 0, received = 0;
    };
    std::vector<Flow> flows;
    for (int channel = 0; channel < 2; ++channel) {
      flows.push_back({&ends[0]->sender(channel), &ends[1]->receiver(channel)});
      flows.push_back({&ends[1]->sender(channel), &ends[0]->receiver(channel)});
    }
    constexpr uint32_t kMessages = 5;
    size_t damaged = 0;
    const auto step = [&](Flow& flow) {
      std::byte* slot = flow.sent < kMessages ? flow.sender->tryAcquire(kWholeSlot) : nullptr;
      if (slot) {
        const uint32_t bytes = 4'000'000 + flow.sent * 5000;
        for (uint32_t i = 0; i < bytes; ++i) slot[i] = static_cast<std::byte>(i * 7 + flow.sent);
        flow.sender->post(bytes, flow.sent++);
      }
      if (const Message* message = flow.receiver->tryPeek()) {
        if (message->tag != flow.received || message->bytes != 4'000'000 + flow.received * 5000) ++damaged;
        for (uint32_t i = 0; i < message->bytes; ++i)
          damaged += message->data[i] != static_cast<std::byte>(i * 7 + flow.received);
        ++flow.received;
        flow.receiver->release();
      }
      return flow.received == kMessages;
    };
    EXPECT_TRUE(pumpUntil({low.get(), high.get()}, [&] {
      size_t done = 0;
      for (Flow& flow : flows) done += step(flow);
      return done == flows.size();
    }));
    EXPECT_EQ(damaged, 0u) << streams;
  }
}

TEST_F(Socket, APeerThatLeavesInOrderIsNoErrorUntilItIsNeeded) {
  const auto low = makeRank(options(0));
  auto high = makeRank(options(1));
  Link* a = low->connect(1, high->address(), kFakeShape).value();
  Link* b = high->connect(0, low->address(), kFakeShape).value();
  ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return a->established() && b->established(); }));
  // Something on its way in each direction, so that the leaving end closes with unread input.
  ASSERT_NE(a->sender(1).tryAcquire(kWholeSlot), nullptr);
  a->sender(1).post(200, 5);
  ASSERT_NE(b->sender(0).tryAcquire(kWholeSlot), nullptr);
  b->sender(0).post(100, 6);
  ASSERT_TRUE(
      pumpUntil({low.get(), high.get()}, [&] { return a->sender(1).flushed() && b->sender(0).flushed(); }));
  high.reset();
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(low->progress().ok()) << low->progress().toString();
  const Message* message = a->receiver(0).tryPeek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->tag, 6u);
  a->receiver(0).release();
  EXPECT_TRUE(low->progress().ok());
  EXPECT_TRUE(a->receiver(0).flushed()) << "nobody is left to be owed a credit";
  EXPECT_EQ(a->receiver(0).tryPeek(), nullptr);
  EXPECT_EQ(low->progress().code(), Code::kRemoteError);
  EXPECT_NE(a->status().message().find("rank 1 left"), std::string::npos) << a->status().toString();
}

TEST_F(Socket, DoesNotAllocateOnceEstablished) {
  for (int streams : {1, 3}) {
    SocketOptions o[2] = {options(0), options(1)};
    for (SocketOptions& each : o) each.streams = streams;
    const auto low = makeRank(o[0]);
    const auto high = makeRank(o[1]);
    Link* a = low->connect(1, high->address(), kFakeShape).value();
    Link* b = high->connect(0, low->address(), kFakeShape).value();
    ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return a->established() && b->established(); }));
    const uint64_t before = allocationsSoFar();
    const Deadline deadline = Deadline::after(clock_, 20'000);
    uint32_t received = 0;
    for (uint32_t sent = 0; received < 2000 && !deadline.passed();) {
      if (sent < 2000 && a->sender(0).tryAcquire(kWholeSlot)) a->sender(0).post(sent % 257, sent), ++sent;
      [[maybe_unused]] const bool fine = low->progress().ok() && high->progress().ok();
      if (b->receiver(0).tryPeek()) b->receiver(0).release(), ++received;
      if (sent % 100 == 0) {
        high->beginWait();
        high->endWait();
      }
    }
    EXPECT_EQ(received, 2000u);
    EXPECT_EQ(allocationsSoFar(), before);
  }
}

TEST_F(HostilePeer, IsBelievedWhileItBehaves) {
  say(kGood, 8);
  const Message* message = nullptr;
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return (message = link_->receiver(1).tryPeek()) != nullptr; }));
  EXPECT_EQ(message->bytes, 8u);
  EXPECT_EQ(message->tag, 9u);
  link_->receiver(1).release();
  // The credit comes back by itself.
  ASSERT_TRUE(
      pumpUntil({rank_.get()}, [&] { return peers_[0]->listen() && peers_[0]->heard().size() >= 32; }));
  tcp::FrameHeader credit;
  std::memcpy(&credit, peers_[0]->heard().data(), sizeof credit);
  EXPECT_EQ(credit.kind, tcp::FrameKind::kCredit);
  EXPECT_EQ(credit.channel, 1);
  EXPECT_EQ(credit.credit, 1u);
  EXPECT_TRUE(link_->receiver(1).flushed());
}

TEST_F(HostilePeer, MayDribbleItsFrames) {
  tcp::FrameHeader header = kGood;
  for (uint64_t number = 0; number < 3; ++number) {
    header.sequence = number;
    header.tag = 40 + number;
    Bytes bytes = bytesOf(header);
    for (size_t i = 0; i < header.bytes; ++i) bytes.push_back(static_cast<std::byte>(number * 8 + i));
    for (const std::byte byte : bytes) {
      EXPECT_EQ(link_->receiver(1).tryPeek(), nullptr) << number;
      peers_[0]->say({&byte, 1});
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(rank_->progress().ok());
    }
    const Message* message = nullptr;
    ASSERT_TRUE(
        pumpUntil({rank_.get()}, [&] { return (message = link_->receiver(1).tryPeek()) != nullptr; }));
    EXPECT_EQ(message->tag, 40 + number);
    ASSERT_EQ(message->bytes, 8u);
    EXPECT_EQ(message->data[7], static_cast<std::byte>(number * 8 + 7));
    link_->receiver(1).release();
  }
}

TEST_F(HostilePeer, IsRefusedWhenAFrameLies) {
  using tcp::FrameHeader;
  using tcp::FrameKind;
  const std::pair<const char*, std::function<void(FrameHeader&)>> lies[] = {
      {"no such channel", [](FrameHeader& h) { h.channel = 2; }},
      {"no such channel", [](FrameHeader& h) { h.channel = 0xffff; }},
      {"larger than a slot", [](FrameHeader& h) { h.bytes = kFakeShape.slot_bytes + 1; }},
      {"larger than a slot", [](FrameHeader& h) { h.bytes = 0xffffffff; }},
      {"out of order", [](FrameHeader& h) { h.sequence = kFakeShape.slots; }},
      {"out of order", [](FrameHeader& h) { h.sequence = ~uint64_t{0}; }},
      {"acknowledged than were sent", [](FrameHeader& h) { h.credit = 1; }},
      {"acknowledged than were sent", [](FrameHeader& h) { h.credit = ~uint64_t{0}; }},
      {"unknown kind", [](FrameHeader& h) { h.kind = static_cast<FrameKind>(9), h.bytes = 0; }},
      {"unknown kind", [](FrameHeader& h) { h.kind = FrameKind::kReady, h.bytes = 0; }},
      {"payload in a frame that has none", [](FrameHeader& h) { h.kind = FrameKind::kCredit; }}};
  for (const auto& [part, lie] : lies) {
    begin(1);
    FrameHeader header = kGood;
    lie(header);
    say(header, 8);
    expectFailure(part);
  }
}

TEST_F(HostilePeer, IsRefusedWhenItSendsAMessageTwice) {
  say(kGood, 8);
  say(kGood, 8);
  expectFailure("out of order");
}

TEST_F(HostilePeer, IsRefusedWhenItOverrunsItsCredits) {
  tcp::FrameHeader header = kGood;
  for (; header.sequence <= kFakeShape.slots; ++header.sequence) say(header, 8);
  expectFailure("out of order");
}

TEST_F(HostilePeer, IsNamedWhenItClosesInTheMiddleOfAMessage) {
  for (size_t bytes : {size_t{0}, size_t{4}}) {
    begin(1);
    say(kGood, bytes);
    peers_[0]->close();
    expectFailure("in the middle of a message");
    EXPECT_EQ(link_->receiver(1).tryPeek(), nullptr) << "half a message is none";
  }
  begin(1);
  Bytes half = bytesOf(kGood);
  half.resize(10);
  peers_[0]->say(half);
  peers_[0]->close();
  expectFailure("in the middle of a message");
}

TEST_F(HostilePeer, IsNamedWhenItGoesAwayWithoutAWord) {
  peers_[0]->close();
  expectFailure("lost the connection");
  begin(1);
  // A reset instead of an orderly end.
  reset(0);
  expectFailure("reset by peer; nor can it connect again");
}

TEST_F(HostilePeer, MessagesOnSeveralStreamsArePutInOrder) {
  begin(2);
  tcp::FrameHeader header = kGood;
  header.sequence = 1;
  header.tag = 101;
  say(header, 8, 1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank_->progress().ok());
  EXPECT_EQ(link_->receiver(1).tryPeek(), nullptr) << "number 0 is still on its way";
  header.sequence = 0;
  header.tag = 100;
  say(header, 8, 0);
  const Message* message = nullptr;
  for (Tag tag : {100, 101}) {
    ASSERT_TRUE(
        pumpUntil({rank_.get()}, [&] { return (message = link_->receiver(1).tryPeek()) != nullptr; }));
    EXPECT_EQ(message->tag, tag);
    link_->receiver(1).release();
  }
}

TEST_F(HostilePeer, IsRefusedWhenItAcknowledgesWhatHasNotLeftYet) {
  ASSERT_NE(link_->sender(0).tryAcquire(kWholeSlot), nullptr);
  link_->sender(0).post(8, 1);
  say({.bytes = 0, .channel = 0, .kind = tcp::FrameKind::kCredit, .tag = 0, .sequence = 0, .credit = 1}, 0);
  expectFailure("acknowledged than were sent");
}

TEST_F(HostilePeer, OldCreditsThatArriveLateChangeNothing) {
  begin(2);
  for (uint32_t i = 0; i < kFakeShape.slots; ++i) {
    ASSERT_NE(link_->sender(0).tryAcquire(kWholeSlot), nullptr);
    link_->sender(0).post(8, i);
  }
  EXPECT_EQ(link_->sender(0).tryAcquire(kWholeSlot), nullptr);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->sender(0).flushed(); }));
  say({.bytes = 0, .channel = 0, .kind = tcp::FrameKind::kCredit, .tag = 0, .sequence = 0, .credit = 3}, 0,
      0);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->sender(0).tryAcquire(kWholeSlot) != nullptr; }));
  say({.bytes = 0, .channel = 0, .kind = tcp::FrameKind::kCredit, .tag = 0, .sequence = 0, .credit = 1}, 0,
      1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank_->progress().ok());
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_NE(link_->sender(0).tryAcquire(kWholeSlot), nullptr) << i;
    link_->sender(0).post(8, i);
  }
  EXPECT_EQ(link_->sender(0).tryAcquire(kWholeSlot), nullptr);
}

}  // namespace
}  // namespace horing::testing
