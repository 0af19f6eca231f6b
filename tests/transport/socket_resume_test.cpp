// The messages of a connection that replaces a broken one: each end reports its state, and the other sends the rest. The peer holds
// the key, but may report a false state.
#include <thread>

#include "../break_connections.h"
#include "socket_peers.h"

namespace horing::testing {
namespace {

using tcp::FrameHeader;
using tcp::FrameKind;

class ResumingPeer : public ListeningPeer {
 protected:
  void post(int channel, Tag tag) {
    std::byte* const slot = link_->sender(channel).tryAcquire(kWholeSlot);
    ASSERT_NE(slot, nullptr);
    slot[0] = static_cast<std::byte>(tag);
    link_->sender(channel).post(8, tag);
  }
  FrameHeader nextMessage(size_t stream = 0) { return nextFrame(FrameKind::kData, stream); }

  // Another rank, on the manual clock, and a connection that works.
  void meetByManualClock(std::function<bool()> deaths_are_told = {}) {
    SocketOptions mine = options(1);
    mine.clock = &manual_clock_;
    mine.deaths_are_told = std::move(deaths_are_told);
    rank_ = makeRank(mine);
    link_ = rank_->connect(0, fake_.encode(), kFakeShape).value();
    come(0, 1);
    sayState(0, States{});
    turn();
  }
  void pass(int seconds) {
    for (int i = 0; i < 10 * seconds; ++i) {
      manual_clock_.advanceNs(100'000'000);
      for (int j = 0; j < 20; ++j) [[maybe_unused]] const Status moved = rank_->progress();
    }
  }

  ManualClock manual_clock_;
};

TEST_F(ResumingPeer, IsSentWhatItDoesNotHaveAndNothingElse) {
  for (Tag tag = 100; tag < 104; ++tag) post(0, tag);
  post(1, 200);
  for (int i = 0; i < 5; ++i) nextMessage();
  EXPECT_TRUE(link_->sender(0).flushed());
  reset(0);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return !link_->sender(0).flushed(); })) << "it may be lost";
  EXPECT_TRUE(link_->established());
  post(1, 201);
  come(0, 2);
  // Of channel 0: number 0 is used, number 2 is there.
  States has{};
  has[0] = {.released = 1, .received = {0b10, 0}};
  sayState(0, has);
  std::vector<Tag> again;
  for (int i = 0; i < 4; ++i) again.push_back(nextMessage().tag);
  EXPECT_EQ(again, (std::vector<Tag>{101, 103, 200, 201}));
  EXPECT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->sender(0).flushed(); }));
  post(0, 104);
  EXPECT_EQ(nextMessage().tag, 104u) << "there was a credit in what it said";
  EXPECT_EQ(link_->sender(0).tryAcquire(kWholeSlot), nullptr);
}

TEST_F(ResumingPeer, HearsWhatTheRankHas) {
  say(kGood, 8);
  FrameHeader header = kGood;
  header.sequence = 2;
  say(header, 8);
  header.sequence = 1;
  say(header, 3);  // of 8 bytes
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->receiver(1).tryPeek() != nullptr; }));
  turn();
  link_->receiver(1).release();
  reset(0);
  turn();
  come(0, 2);
  EXPECT_EQ(theirs_[0].released, 0u);
  EXPECT_EQ(theirs_[1].released, 1u);
  EXPECT_EQ(theirs_[1].received[0], 0b10u) << "number 2; half of number 1 is nothing";
  sayState(0, States{});
  header.tag = 77;
  say(header, 8);
  const Message* message = nullptr;
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return (message = link_->receiver(1).tryPeek()) != nullptr; }));
  EXPECT_EQ(message->tag, 77u);
}

TEST_F(ResumingPeer, MayReplaceAConnectionThatTheRankThinksIsWell) {
  post(0, 5);
  come(0, 2);
  sayState(0, States{});
  EXPECT_EQ(nextMessage().tag, 5u);
}

TEST_F(ResumingPeer, IsNotLetInByAnOldAttempt) {
  come(0, 3);
  sayState(0, States{});
  for (uint32_t attempt : {2u, 3u, 0u}) {
    tcp::ConnectorHello hello = goodHello(publishedBy(*rank_), fake_);
    hello.attempt = attempt;
    Client late(publishedBy(*rank_).port);
    EXPECT_TRUE(
        late.prove(*rank_, {.key = key_, .role = HandshakeRole::kConnector, .hello = bytesOf(hello)}));
    EXPECT_TRUE(pumpUntil({rank_.get()}, [&] { return !late.listen(); })) << attempt;
  }
  post(0, 6);
  EXPECT_EQ(nextMessage().tag, 6u) << "the third connection is undisturbed";
}

TEST_F(ResumingPeer, IsNotLetInWithoutTheKey) {
  reset(0);
  turn();
  tcp::ConnectorHello hello = goodHello(publishedBy(*rank_), fake_);
  hello.attempt = 2;
  Client stranger(publishedBy(*rank_).port);
  EXPECT_FALSE(stranger.prove(
      *rank_, {.key = Key::random(), .role = HandshakeRole::kConnector, .hello = bytesOf(hello)}));
  turn();
  post(0, 7);
  come(0, 2);
  sayState(0, States{});
  EXPECT_EQ(nextMessage().tag, 7u);
}

TEST_F(ResumingPeer, IsRefusedWhenItSaysToHaveWhatItCannotHave) {
  const auto stateOf = [](uint64_t released, uint64_t low_bits, uint64_t high_bits) {
    States states{};
    states[1] = {.released = released, .received = {low_bits, high_bits}};
    return states;
  };
  const std::pair<const char*, States> lies[] = {
      {"messages that were not sent", stateOf(2, 0, 0)},
      {"messages that were not sent", stateOf(~uint64_t{0}, 0, 0)},
      {"messages that were not sent", stateOf(0, 0b10, 0)},
      {"messages that were not sent", stateOf(1, 1, 0)},
      {"messages that were not sent", stateOf(0, 0, uint64_t{1} << 63)}};
  for (const auto& [part, lie] : lies) {
    begin(1);
    post(1, 9);
    nextMessage();
    reset(0);
    turn();
    come(0, 2);
    sayState(0, lie);
    expectFailure(part);
  }
}

TEST_F(ResumingPeer, IsRefusedWhenItDoesNotSayInOrderWhatItHas) {
  come(0, 2);
  say(kGood, 8);
  expectFailure("a frame before the peer's state");
  begin(1);
  sayState(0, States{});
  expectFailure("a second state of the stream");
  begin(1);
  come(0, 2);
  say({.bytes = sizeof(ChannelState), .channel = 0, .kind = FrameKind::kState}, 24);
  expectFailure("another number of channels");
}

TEST_F(ResumingPeer, LosesOneOfSeveralStreamsWhileTheOthersWork) {
  begin(2);
  turn();  // until both are open
  for (Tag tag = 0; tag < 4; ++tag) post(0, tag);
  turn();
  const std::vector<Tag> first = {nextMessage(0).tag, nextMessage(0).tag};
  const std::vector<Tag> second = {nextMessage(1).tag, nextMessage(1).tag};
  reset(1);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return !link_->sender(0).flushed(); }));
  post(1, 50);
  post(1, 51);
  EXPECT_EQ(nextMessage(0).tag, 50u) << "the stream that is there takes all that is new";
  EXPECT_EQ(nextMessage(0).tag, 51u);
  // Credits that arrived just before the break may be reported on the new connection.
  say({.bytes = 0, .channel = 0, .kind = FrameKind::kCredit, .tag = 0, .sequence = 0, .credit = 4}, 0, 0);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->sender(0).flushed(); }));
  come(1, 2);
  States has{};
  has[0].released = 4;
  sayState(1, has);
  turn();
  EXPECT_FALSE(peers_[1]->listen() && peers_[1]->heard().size() > 0) << "nothing is left to be sent again";
}

// The process behind it may be busy elsewhere: it is waited for as long as it listens.
TEST_F(ResumingPeer, IsWaitedForWhileItListensAndGivenUpWhenItDoesNot) {
  meetByManualClock();
  reset(0);
  pass(60);
  EXPECT_TRUE(link_->status().ok()) << link_->status().toString();
  listener_.reset();
  pass(10);
  EXPECT_EQ(link_->status().code(), Code::kRemoteError);
  for (const char* part : {"rank 1 lost the connection to rank 0", "reset by peer", "refused", "died"})
    EXPECT_NE(link_->status().message().find(part), std::string::npos) << link_->status().toString();
}

// ... and also when it does not answer, if another source would report its end: all its sockets may have been destroyed at once.
TEST_F(ResumingPeer, IsWaitedForThoughItRefusesWhileDeathsAreTold) {
  bool told = true;
  meetByManualClock([&] { return told; });
  listener_.reset();
  reset(0);
  pass(60);
  EXPECT_TRUE(link_->status().ok()) << link_->status().toString();
  EXPECT_NE(link_->describe().find("refused"), std::string::npos) << link_->describe();
  told = false;
  pass(3);
  EXPECT_EQ(link_->status().code(), Code::kRemoteError) << link_->describe();
}

// ... and also when it accepts no connections because its queue is full; but not when its machine is silent.
TEST_F(ResumingPeer, IsWaitedForWhileItsQueueIsFullAndGivenUpWhenItsMachineIsSilent) {
  meetByManualClock();
  ASSERT_EQ(::listen(listener_.get(), 0), 0);
  const Client fills_it(port_);
  reset(0);
  pass(60);
  EXPECT_TRUE(link_->status().ok()) << link_->status().toString();
  // No process reports any more that this port is closed.
  const Fd swallows(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SockAddr here = toSockAddr({.address = fake_.interfaces[0].address, .port = port_});
  ASSERT_EQ(::bind(swallows.get(), here.get(), here.length), 0);
  pass(20);
  EXPECT_EQ(link_->status().code(), Code::kRemoteError) << link_->describe();
}

// Its goodbye may not have got through to a rank that read nothing.
TEST_F(ResumingPeer, IsMissedWhenItIsNeededIfItEndsWithoutAGoodbyeWhileDeathsAreTold) {
  for (const bool told : {true, false}) {
    SocketOptions mine = options(1);
    mine.deaths_are_told = [told] { return told; };
    rank_ = makeRank(mine);
    link_ = rank_->connect(0, fake_.encode(), kFakeShape).value();
    come(0, 1);
    sayState(0, States{});
    say(kGood, 8);
    ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->receiver(1).tryPeek() != nullptr; }));
    peers_[0]->close();
    if (!told) {
      expectFailure("has probably died");
      continue;
    }
    turn();
    EXPECT_TRUE(link_->status().ok()) << link_->status().toString();
    link_->receiver(1).release();
    EXPECT_EQ(link_->receiver(1).tryPeek(), nullptr);
    expectFailure("ended the connection without a goodbye");
  }
}

// The rank itself may be away for a while, and no time of that is one of waiting.
TEST_F(ResumingPeer, IsNotGivenUpForWhatHappenedWhileTheRankWasAway) {
  meetByManualClock();
  listener_.reset();
  reset(0);
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] {
    return link_->describe().find("refused") != std::string::npos;
  })) << link_->describe();
  manual_clock_.advanceNs(60'000'000'000);
  Result<Listener> again = listenOn(nullptr, port_);
  ASSERT_TRUE(again.ok()) << again.status().toString();
  turn();
  EXPECT_TRUE(link_->status().ok()) << link_->status().toString();
}

// A peer that is busy elsewhere answers when it comes back, and what waits for it in its queue may break, too.
TEST_F(Socket, WaitsForABusyPeerAlsoWhenConnectionsBreakMeanwhile) {
  ManualClock clock;
  SocketOptions mine[] = {options(0), options(1)};
  for (SocketOptions& each : mine) each.clock = &clock;
  const auto low = makeRank(mine[0]);
  const auto high = makeRank(mine[1]);
  Link* const a = low->connect(1, high->address(), kFakeShape).value();
  Link* const b = high->connect(0, low->address(), kFakeShape).value();
  ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return a->established() && b->established(); }));
  for (int i = 0; i < 3; ++i) {
    ASSERT_GE(breakConnections([] { return true; }), 1);
    const bool waits = pumpUntil({low.get()}, [&] {
      clock.advanceNs(1'000'000);
      return !a->status().ok() || a->describe().find("does not answer") != std::string::npos;
    });
    ASSERT_TRUE(waits && a->status().ok()) << i << ": " << a->describe() << " " << a->status().toString();
    for (int j = 0; j < 30; ++j) {
      clock.advanceNs(100'000'000);
      ASSERT_TRUE(low->progress().ok()) << low->progress().toString();
    }
  }
  std::byte* const slot = a->sender(0).tryAcquire(kWholeSlot);
  ASSERT_NE(slot, nullptr);
  a->sender(0).post(1, 7);
  EXPECT_TRUE(pumpUntil({low.get(), high.get()},
                        [&] {
                          clock.advanceNs(1'000'000);
                          return b->receiver(0).tryPeek() != nullptr;
                        }))
      << a->describe() << " " << b->describe() << " " << b->status().toString();
}

TEST_F(Socket, LeavesInOrderThoughItsConnectionBrokeJustBefore) {
  std::unique_ptr<Transport> low;
  std::unique_ptr<Transport> high;
  for (std::unique_ptr<Transport>* leaving : {&low, &high}) {
    low = makeRank(options(0));
    high = makeRank(options(1));
    Link* const a = low->connect(1, high->address(), kFakeShape).value();
    Link* const b = high->connect(0, low->address(), kFakeShape).value();
    ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return a->established() && b->established(); }));
    ASSERT_NE(a->sender(0).tryAcquire(kWholeSlot), nullptr);
    a->sender(0).post(1, 7);
    ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return b->receiver(0).tryPeek() != nullptr; }));
    b->receiver(0).release();
    ASSERT_TRUE(pumpUntil({low.get(), high.get()}, [&] { return b->receiver(0).flushed(); }));
    // Also the news of that: then there is nothing to be sent again.
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(low->progress().ok());
    ASSERT_GE(breakConnections([] { return true; }), 1);
    const bool low_leaves = leaving == &low;
    Transport& stays = low_leaves ? *high : *low;
    Link* const link = low_leaves ? b : a;
    std::thread end([&] { leaving->reset(); });
    const bool failed = pumpUntil({&stays}, [&] {
      if (link->sender(0).tryAcquire(kWholeSlot)) link->sender(0).post(1, 8);
      return !link->status().ok();
    });
    end.join();
    EXPECT_TRUE(failed && link->status().message().find(" left (") != std::string::npos)
        << (low_leaves ? "the lower: " : "the higher: ") << link->status().toString();
  }
}

}  // namespace
}  // namespace horing::testing
