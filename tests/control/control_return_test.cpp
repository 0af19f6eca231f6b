// Control connections that break while both ends live, ranks that do not come back, and others that come in their place.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "../break_connections.h"
#include "../held_port.h"
#include "control/control_channel.h"
#include "control/control_journal.h"
#include "control/control_messages.h"
#include "control/root_connection.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;
using horing::testing::breakConnections;

SharedMessage message(uint8_t content) {
  return std::make_shared<const std::vector<std::byte>>(1, std::byte{content});
}

TEST(ControlJournal, KeepsWhatIsNotAcknowledged) {
  ControlJournal journal;
  for (uint8_t i = 0; i < 5; ++i) journal.keep(message(i));
  EXPECT_TRUE(journal.acknowledge(3));
  EXPECT_EQ(journal.kept(), 2u);
  EXPECT_TRUE(journal.acknowledge(1)) << "old news";
  EXPECT_EQ(journal.kept(), 2u);
  EXPECT_FALSE(journal.acknowledge(6));
  EXPECT_FALSE(journal.acknowledge(UINT64_MAX));
  EXPECT_TRUE(journal.acknowledge(5));
  EXPECT_EQ(journal.kept(), 0u);
}

TEST(ControlJournal, CannotRecallWhatItPassedOrWhatIsTooOld) {
  ControlJournal journal;
  const UniqueIdParts parts;
  ControlChannel channel(Fd(), Key(), HandshakeRole::kConnector, 100);
  journal.keep(message(0));
  journal.pass();
  EXPECT_EQ(journal.kept(), 0u);
  EXPECT_FALSE(journal.resend(0, channel));
  EXPECT_FALSE(journal.resend(1, channel));
  EXPECT_TRUE(journal.resend(2, channel)) << "nothing is missing";
  EXPECT_FALSE(journal.resend(3, channel)) << "more than was said";
  for (size_t i = 0; i < kMaxJournal + 10; ++i) journal.keep(message(1));
  EXPECT_EQ(journal.kept(), kMaxJournal);
  EXPECT_FALSE(journal.resend(11, channel));
}

JoinOptions beating(const UniqueId& id, int rank, int ranks) {
  JoinOptions options = joinOptions(id, rank, ranks);
  options.heartbeat_ms = 500;  // limit for a machine that is busy
  return options;
}

std::vector<std::unique_ptr<Control>> joinBeating(const UniqueId& id, int ranks) {
  std::vector<std::unique_ptr<Control>> controls(static_cast<size_t>(ranks));
  inThreads(ranks, [&](int rank) {
    auto joined = Control::join(beating(id, rank, ranks));
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    controls[static_cast<size_t>(rank)] = joined.take();
  });
  // A rank may return only after its first heartbeat; when this exchange is complete, every rank has sent one.
  inThreads(ranks, [&](int rank) {
    EXPECT_TRUE(controls[static_cast<size_t>(rank)]->allGather({}, in(30'000)).ok());
  });
  return controls;
}

// Parts larger than what a socket takes at once, so that messages break in the middle.
std::vector<std::byte> partOf(int rank, int exchange) {
  return std::vector<std::byte>(150'000 + static_cast<size_t>(rank),
                                static_cast<std::byte>(rank * 50 + exchange));
}

TEST(ControlReturn, ExchangesGoOnThoughConnectionsBreak) {
  constexpr int kRanks = 3;
  constexpr int kExchanges = 40;
  const auto root = startRoot();
  const auto controls = joinBeating(root->id(), kRanks);
  std::atomic<bool> done{false};
  std::atomic<int> broken{0};
  std::thread trouble([&] {
    for (unsigned round = 0; !done; ++round) {
      unsigned number = 0;
      // One or two of the six ends, others each time.
      broken += breakConnections([&] { return (number++ + round) % 5 == 0; });
      ::poll(nullptr, 0, 30 + static_cast<int>(round % 7) * 10);
    }
  });
  inThreads(kRanks, [&](int rank) {
    for (int exchange = 0; exchange < kExchanges; ++exchange) {
      auto all = controls[static_cast<size_t>(rank)]->allGather(partOf(rank, exchange), in(30'000));
      ASSERT_TRUE(all.ok()) << "exchange " << exchange << ": " << all.status().toString();
      for (int other = 0; other < kRanks; ++other)
        EXPECT_EQ(all.value()[static_cast<size_t>(other)], partOf(other, exchange)) << exchange;
      ::poll(nullptr, 0, 10);
    }
  });
  done = true;
  trouble.join();
  EXPECT_GE(broken, 5);
  for (const auto& control : controls) EXPECT_TRUE(control->status().ok()) << control->status().toString();
}

TEST(ControlReturn, ALeavingRankComesBackToSaySo) {
  const auto root = startRoot();
  const auto controls = joinBeating(root->id(), 2);
  ASSERT_GE(breakConnections([] { return true; }), 2);
  ::poll(nullptr, 0, 50);
  controls[1]->leave();
  auto alone = controls[0]->allGather({}, in(10'000));
  EXPECT_TRUE(mentions(alone.status(), "rank 1 (") && mentions(alone.status(), "has left"))
      << alone.status().toString();
}

TEST(ControlReturn, WhoCatchesUpAsksAgainAfterABreak) {
  const auto root = startRoot();
  const auto controls = joinBeating(root->id(), 2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_GE(breakConnections([] { return true; }), 1);  // the other may not be back yet
    const Status status = controls[1]->catchUp(in(30'000));
    ASSERT_TRUE(status.ok()) << i << ": " << status.toString();
  }
}

// Whether the thread of the connection knows of the break already is left to chance, so these try several times.
constexpr int kTries = 6;

TEST(ControlReturn, AGoodbyeJustAfterABreakArrives) {
  for (int i = 0; i < kTries; ++i) {
    const auto root = startRoot();
    const auto controls = joinBeating(root->id(), 2);
    ASSERT_GE(breakConnections([] { return true; }), 2);
    controls[1]->leave();
    auto alone = controls[0]->allGather({}, in(10'000));
    EXPECT_TRUE(mentions(alone.status(), "rank 1 (") && mentions(alone.status(), "has left"))
        << i << ": " << alone.status().toString();
  }
}

TEST(ControlReturn, AnErrorAnnouncedJustAfterABreakArrives) {
  for (int i = 0; i < kTries; ++i) {
    const auto root = startRoot();
    auto controls = joinBeating(root->id(), 2);
    ASSERT_GE(breakConnections([] { return true; }), 2);
    controls[1]->announceError(makeStatus(Code::kInternalError, "trouble of its own"));
    EXPECT_TRUE(mentions(controls[1]->status(), "trouble of its own"));
    // Also when it ends at once.
    if (i % 2 == 1) controls[1].reset();
    const Status status = waitForError(*controls[0]);
    EXPECT_TRUE(mentions(status, "rank 1 (") && mentions(status, "trouble of its own"))
        << i << ": " << status.toString();
  }
}

TEST(ControlReturn, AClosingRootIsHeardByThoseWhoseConnectionBroke) {
  for (int i = 0; i < kTries; ++i) {
    auto root = startRoot();
    const auto controls = joinBeating(root->id(), 3);
    ASSERT_GE(breakConnections([] { return true; }), 3);
    root.reset();
    for (const auto& control : controls) {
      const Status status = waitForError(*control);
      EXPECT_TRUE(status.ok()) << i << ": " << status.toString();
      EXPECT_EQ(control->failedRank(), -1);
      control->leave();
    }
  }
}

// A rendezvous in a separate process, which can be killed.
class DistantRoot {
 public:
  DistantRoot() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto root = startRoot(60'000, 60'000, port_.number());
      [[maybe_unused]] const ssize_t told = ::write(ends[1], &root->id(), sizeof id_);
      for (;;) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &id_, sizeof id_), static_cast<ssize_t>(sizeof id_));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~DistantRoot() { kill(); }
  const UniqueId& id() const { return id_; }
  void stop() { ASSERT_EQ(::kill(pid_, SIGSTOP), 0); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  const test::HeldPort port_;
  UniqueId id_;
  pid_t pid_ = -1;
};

TEST(ControlReturn, ARootThatIsGoneIsLostAndHoldsNobodyBack) {
  DistantRoot root;
  const auto controls = joinBeating(root.id(), 2);
  // The connection breaks before the process ends, since the kernel would close it in order.
  ASSERT_GE(breakConnections([] { return true; }), 2);
  root.kill();
  const Status status = waitForError(*controls[0]);
  EXPECT_TRUE(mentions(status, "hosts the rendezvous") && mentions(status, "is lost")) << status.toString();
  controls[0]->leave();
  controls[1]->announceError(makeStatus(Code::kInternalError, "nobody hears this"));
  controls[1]->leave();
}

// The kernel resets the connections of a process that leaves data unread, as if the network had broken them.
TEST(ControlReturn, ARootThatDiesWithUnreadMessagesIsLostSoon) {
  DistantRoot root;
  const auto controls = joinBeating(root.id(), 2);
  root.stop();
  ::poll(nullptr, 0, 1200);  // two heartbeats of each rank
  const int64_t killed_ns = kClock.nowNs();
  root.kill();
  for (const auto& control : controls) {
    const Status status = waitForError(*control);
    EXPECT_TRUE(mentions(status, "hosts the rendezvous") && mentions(status, "is lost")) << status.toString();
  }
  EXPECT_LT(kClock.nowNs() - killed_ns, 2'000'000'000);
}

// A fake rank: the test chooses its messages.
std::unique_ptr<ControlChannel> fakeRank(const UniqueId& id, const HelloMessage& hello) {
  auto channel = connectToRoot(decodeUniqueId(id).take(), kClock, {in(10'000), nullptr}).take();
  for (const RankMessage& said : {RankMessage(hello), RankMessage(BeatMessage{500, 0})})
    channel->send(std::make_shared<const std::vector<std::byte>>(encodeMessage(said)));
  EXPECT_TRUE(channel->flush().ok());
  return channel;
}

uint16_t returnPort(ControlChannel& channel) {
  const WaitLimit limit{in(20'000), nullptr};
  while (!limit.over() && waitAndProgress(channel, limit, 100).ok()) {
    while (const auto bytes = channel.receive()) {
      const auto decoded = decodeRootMessage(*bytes).take();
      if (const auto* welcome = std::get_if<WelcomeMessage>(&decoded)) return welcome->return_port;
    }
  }
  ADD_FAILURE() << "no welcome";
  return 0;
}

void reset(std::unique_ptr<ControlChannel> channel) {
  const linger abort{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(channel->fd(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort), 0);
}

// The answer to a return: the messages that follow it, or nothing when the connection is closed.
struct Answer {
  std::unique_ptr<ControlChannel> channel;
  bool taken = false;
  std::string refusal;
};
Answer reconnect(const UniqueId& id, uint16_t port, const ReturnMessage& words) {
  const UniqueIdParts parts = decodeUniqueId(id).take();
  Endpoint address = parts.roots.front();
  address.port = port;
  const WaitLimit limit{in(20'000), nullptr};
  auto connected = connectOnce(address, jobKey(parts, "control"), limit);
  if (!connected.ok()) return {};
  Answer answer{connected.take()};
  answer.channel->send(std::make_shared<const std::vector<std::byte>>(encodeMessage(RankMessage(words))));
  while (!answer.channel->closed() && !limit.over()) {
    if (!waitAndProgress(*answer.channel, limit, 100).ok()) break;
    const auto bytes = answer.channel->receive();
    if (!bytes) continue;
    const RootMessage said = decodeRootMessage(*bytes).take();
    answer.taken = std::holds_alternative<ReturnedMessage>(said);
    if (const auto* failure = std::get_if<FailureMessage>(&said)) answer.refusal = failure->reason;
    return answer;
  }
  return answer;
}

constexpr ReturnSecret kSecret{std::byte{1}, std::byte{2}};

TEST(ControlReturn, WhoStaysAwayIsLost) {
  const auto root = startRoot();
  auto fake = fakeRank(root->id(), {1, 2, 10'000, {"b", 22, 1}, kSecret});
  auto joined = Control::join(beating(root->id(), 0, 2));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  returnPort(*fake);
  reset(std::move(fake));
  const Status status = waitForError(*joined.value());
  for (const char* part : {"rank 1 (b, pid 22)", "broke", "did not return within 2000 ms"})
    EXPECT_TRUE(mentions(status, part)) << status.toString();
  EXPECT_EQ(joined.value()->failedRank(), 1);
}

TEST(ControlReturn, OnlyTheRankItselfReturns) {
  const auto root = startRoot();
  auto fake = fakeRank(root->id(), {1, 2, 10'000, {"b", 22, 1}, kSecret});
  auto joined = Control::join(beating(root->id(), 0, 2));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  const uint16_t port = returnPort(*fake);
  EXPECT_NE(port, root->port());
  ReturnSecret other = kSecret;
  other[15] = std::byte{1};
  EXPECT_FALSE(reconnect(root->id(), port, {1, other, 1}).taken) << "another secret";
  EXPECT_FALSE(reconnect(root->id(), port, {0, kSecret, 1}).taken) << "another rank's place";
  EXPECT_FALSE(reconnect(root->id(), port, {2, kSecret, 1}).taken);
  EXPECT_FALSE(reconnect(root->id(), port, {-1, kSecret, 1}).taken);
  EXPECT_FALSE(fake->closed());
  EXPECT_TRUE(joined.value()->status().ok()) << "nobody was disturbed";
  const Answer back = reconnect(root->id(), port, {1, kSecret, 1});
  EXPECT_TRUE(back.taken) << "also while the connection before seems well";
  const WaitLimit limit{in(20'000), nullptr};
  while (!fake->closed() && !limit.over())
    [[maybe_unused]] const Status moved = waitAndProgress(*fake, limit, 100);
  EXPECT_TRUE(fake->closed()) << "there is one connection for each rank";
  EXPECT_TRUE(joined.value()->status().ok()) << joined.value()->status().toString();
}

TEST(ControlReturn, WhoClaimsToHaveHeardWhatWasNotSaidIsNotTakenBack) {
  const auto root = startRoot();
  auto fake = fakeRank(root->id(), {1, 2, 10'000, {"b", 22, 1}, kSecret});
  auto joined = Control::join(beating(root->id(), 0, 2));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  const uint16_t port = returnPort(*fake);
  reset(std::move(fake));
  EXPECT_FALSE(reconnect(root->id(), port, {1, kSecret, 99}).channel->status().ok());
  EXPECT_TRUE(mentions(waitForError(*joined.value()), "rank 1 (b, pid 22)"));
}

TEST(ControlReturn, WhoLacksWhatCannotBeSaidAgainHearsWhy) {
  const auto root = startRoot();
  auto fake = fakeRank(root->id(), {1, 2, 10'000, {"b", 22, 1}, kSecret});
  auto joined = Control::join(beating(root->id(), 0, 2));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  const uint16_t port = returnPort(*fake);
  // It has the welcome, which then need not be kept.
  fake->send(std::make_shared<const std::vector<std::byte>>(encodeMessage(RankMessage(BeatMessage{500, 1}))));
  const WaitLimit limit{in(20'000), nullptr};
  bool echoed = false;
  while (!echoed && !limit.over() && waitAndProgress(*fake, limit, 100).ok())
    while (const auto bytes = fake->receive())
      echoed = echoed || std::holds_alternative<BeatEchoMessage>(decodeRootMessage(*bytes).take());
  ASSERT_TRUE(echoed);
  reset(std::move(fake));
  const Answer answer = reconnect(root->id(), port, {1, kSecret, 0});
  EXPECT_FALSE(answer.taken);
  EXPECT_NE(answer.refusal.find("rank 1 returned"), std::string::npos) << answer.refusal;
  EXPECT_TRUE(mentions(waitForError(*joined.value()), "rank 1 (b, pid 22)"));
}

}  // namespace
}  // namespace horing
