// Links over devices in memory (verbs_fake.h): failures of ports, wires and limits.
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "contract_ranks.h"
#include "transport/loopback/loopback_transport.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/link.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_fake.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 2, .slots = 8, .slot_bytes = 4096};

// Goes by itself, and faster when it is pushed.
class PushedClock final : public Clock {
 public:
  int64_t nowNs() const override { return steady_.nowNs() + ahead_ns_; }
  void advanceNs(int64_t by) { ahead_ns_ += by; }

 private:
  SteadyClock steady_;
  int64_t ahead_ns_ = 0;
};

// Rank 0 has the devices a0 and a1, rank 1 has b0 and b1; wire 0 joins a0 and b0, wire 1 joins a1 and b1.
class VerbsLinks : public ::testing::Test {
 protected:
  static FakeDevice device(const char* name, int wire, int host) {
    return {.name = name, .wire = wire, .gid = fakeGid(wire, host)};
  }
  VerbsOptions optionsOf(int rank) {
    VerbsOptions options{.rank = rank, .devices = rank == 0 ? "a" : "b"};
    options.outage_ms = outage_ms_;
    options.library = &verbs_.library();
    options.clock = &clock_;
    options.log = Log(LogLevel::kNone);
    return options;
  }
  Result<std::unique_ptr<Transport>> make(const VerbsOptions& options) {
    if (!hub_) {
      HORING_ASSIGN(hub_, LoopbackHub::create(2));
    }
    HORING_ASSIGN(auto control, makeLoopbackTransport(hub_, options.rank));
    return makeVerbsTransport(options, std::move(control));
  }
  void makeRanksWith(const std::function<void(VerbsOptions&)>& change) {
    for (int rank = 0; rank < 2; ++rank) {
      VerbsOptions options = optionsOf(rank);
      change(options);
      auto made = make(options);
      ASSERT_TRUE(made.ok()) << made.status().toString();
      ranks_[rank] = made.take();
    }
  }
  void makeRanks(WithoutPaths without = WithoutPaths::kFail) {
    makeRanksWith([&](VerbsOptions& options) { options.without_paths = without; });
  }
  void makeRanksByPushedClock() {
    makeRanksWith([&](VerbsOptions& options) { options.clock = &pushed_clock_; });
  }
  void connect(int number = 0, const LinkShape& shape = kShape) {
    for (int rank = 0; rank < 2; ++rank) {
      auto link = ranks_[rank]->connect(1 - rank, ranks_[1 - rank]->address(), shape, number);
      ASSERT_TRUE(link.ok()) << link.status().toString();
      links_[rank] = link.value();
    }
  }
  bool established() {
    return pumpUntil(ranks_, [&] { return links_[0]->established() && links_[1]->established(); });
  }
  bool failed() {
    return pumpUntil(ranks_, [&] { return !links_[0]->status().ok() && !links_[1]->status().ok(); });
  }
  // Both ways on both channels.
  bool transfer(uint64_t messages) {
    uint64_t sent[2][2] = {}, received[2][2] = {}, wrong = 0;
    const bool all = pumpUntil(ranks_, [&] {
      bool done = true;
      for (int rank = 0; rank < 2; ++rank)
        for (int channel = 0; channel < 2; ++channel) {
          uint64_t& out = sent[rank][channel];
          uint64_t& in = received[rank][channel];
          Sender& sender = links_[rank]->sender(channel);
          if (std::byte* const slot = out < messages ? sender.tryAcquire(kWholeSlot) : nullptr) {
            fillPattern(slot, 3000, out);
            sender.post(3000, out++);
          }
          Receiver& receiver = links_[rank]->receiver(channel);
          if (const Message* const message = receiver.tryPeek()) {
            wrong += message->tag != in || matchPattern(message->data, message->bytes, in) != 3000 ? 1 : 0;
            ++in;
            receiver.release();
          }
          done = done && in == messages;
        }
      return done || !links_[0]->status().ok() || !links_[1]->status().ok();
    });
    EXPECT_EQ(wrong, 0u);
    for (Link* const link : links_) EXPECT_TRUE(link->status().ok()) << link->status().toString();
    return all && links_[0]->status().ok() && links_[1]->status().ok();
  }
  void expectNothingLost() const {
    for (Link* const link : links_)
      EXPECT_EQ(link->describe().find("lost"), std::string::npos) << link->describe();
  }
  static void expectParts(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* const part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }

  int64_t outage_ms_ = 30'000;
  SteadyClock clock_;
  PushedClock pushed_clock_;
  FakeVerbs verbs_{{device("a0", 0, 1), device("a1", 1, 1), device("b0", 0, 2), device("b1", 1, 2)}};
  std::shared_ptr<LoopbackHub> hub_;
  std::unique_ptr<Transport> ranks_[2];
  Link* links_[2] = {};
};

TEST(PathStage, ComesInOrderAndMayBreakOnce) {
  using enum verbs::PathStage;
  EXPECT_TRUE(verbs::mayFollow(kBegun, kOffered) && verbs::mayFollow(kOffered, kOn));
  EXPECT_FALSE(verbs::mayFollow(kBegun, kOn)) << "there is nothing to turn on";
  EXPECT_FALSE(verbs::mayFollow(kOffered, kOffered) || verbs::mayFollow(kOn, kOffered));
  for (const verbs::PathStage now : {kBegun, kOffered, kOn}) EXPECT_TRUE(verbs::mayFollow(now, kBroken));
  for (const verbs::PathStage next : {kBegun, kOffered, kOn, kBroken})
    EXPECT_FALSE(verbs::mayFollow(kBroken, next)) << "until the next life begins";
}

TEST_F(VerbsLinks, UseAllPathsAndLeaveNothingBehind) {
  makeRanks();
  const int before = verbs_.resources();
  connect();
  ASSERT_TRUE(established());
  EXPECT_TRUE(transfer(1000));
  for (const char* const name : {"a0", "a1", "b0", "b1"})
    EXPECT_GT(verbs_.device(name).bytes_sent, 1'000'000u) << name;
  EXPECT_GT(verbs_.resources(), before);
  const int with_link = verbs_.resources();
  EXPECT_TRUE(transfer(1000));
  EXPECT_EQ(verbs_.resources(), with_link);
  for (auto& rank : ranks_) rank.reset();
  EXPECT_EQ(verbs_.resources(), 0);
}

TEST_F(VerbsLinks, ComeUpOnWhatIsLeftWhenAPortIsDown) {
  for (const int wire : {0, 1}) {
    SCOPED_TRACE(wire);
    makeRanks();
    verbs_.pull(wire);
    connect();
    ASSERT_TRUE(established());
    EXPECT_TRUE(transfer(100));
    expectParts(links_[0]->describe(), {"1 of them lost"});
    EXPECT_EQ(verbs_.device(wire == 0 ? "a0" : "a1").bytes_sent, 0u);
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
    verbs_.plug(wire);
    for (const char* const name : {"a0", "a1"}) verbs_.device(name).bytes_sent = 0;
  }
}

// Also when it tries again, until it can.
TEST_F(VerbsLinks, ComeUpOnWhatIsLeftWhenOneEndCannotRegisterMemory) {
  makeRanksByPushedClock();
  verbs_.device("b0").registers = false;
  connect();
  ASSERT_TRUE(established());
  for (int second = 0; second < 5; ++second) {
    EXPECT_TRUE(transfer(100));
    pushed_clock_.advanceNs(1'000'000'000);
  }
  EXPECT_EQ(verbs_.device("a0").bytes_sent, 0u);
  verbs_.device("b0").registers = true;
  pushed_clock_.advanceNs(60'000'000'000);
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return links_[0]->describe().find("lost") == std::string::npos; }));
  EXPECT_TRUE(transfer(100));
  EXPECT_GT(verbs_.device("a0").bytes_sent, 0u);
}

// A switch that takes smaller packets than both ports.
TEST_F(VerbsLinks, UseNoPathThatLetsOnlySmallPacketsThrough) {
  verbs_.device("b0").lets_through = 2048;
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  const auto lost = [](Link* link) { return link->describe().find("1 of them lost") != std::string::npos; };
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return lost(links_[0]) && lost(links_[1]); })) << "before any message";
  EXPECT_TRUE(transfer(100));
}

TEST_F(VerbsLinks, LoseWhatLeadsNowhereBeforeTheFirstMessage) {
  makeRanks();
  verbs_.pull(1, FakeVerbs::Pull::kSilently);
  connect();
  ASSERT_TRUE(established());
  EXPECT_TRUE(transfer(100));
}

// Ports are up, and queue pairs, but nothing gets through.
TEST_F(VerbsLinks, UseTheControlTransportWhenAllPathsLeadNowhere) {
  for (const bool infiniband : {false, true}) {
    SCOPED_TRACE(infiniband);
    for (const char* const name : {"a0", "a1", "b0", "b1"}) verbs_.device(name).infiniband = infiniband;
    makeRanks(WithoutPaths::kUseControl);
    for (const int wire : {0, 1}) verbs_.pull(wire, FakeVerbs::Pull::kSilently);
    connect();
    ASSERT_TRUE(established()) << links_[0]->describe();
    for (Link* const link : links_) expectParts(link->describe(), {"loopback", "RDMA does not reach rank"});
    EXPECT_TRUE(transfer(100));
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
    for (const int wire : {0, 1}) verbs_.plug(wire);
  }
}

// For a fabric whose ports need the long addresses, too, whichever end requires them.
TEST_F(VerbsLinks, SendTheAddressThatOnePortAsksFor) {
  for (const char* const name : {"a0", "a1", "b0", "b1"}) verbs_.device(name).infiniband = true;
  for (const char* const name : {"b0", "b1"}) verbs_.device(name).needs_grh = true;
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  EXPECT_TRUE(transfer(100));
  expectNothingLost();
}

TEST_F(VerbsLinks, MakeDoWithWhatAnAdapterTakesInline) {
  for (const uint32_t most : {96u, 0u}) {
    for (const char* const name : {"a0", "b1"}) verbs_.device(name).most_inline = most;
    makeRanks();
    connect();
    ASSERT_TRUE(established());
    EXPECT_TRUE(transfer(100));
    expectNothingLost();
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
  }
}

TEST_F(VerbsLinks, UseThePartitionAndTheOrderThatAreWanted) {
  for (const char* const name : {"a0", "a1", "b0", "b1"}) verbs_.device(name).infiniband = true;
  makeRanksWith([](VerbsOptions& options) {
    options.pkey_index = options.rank == 0 ? 3 : 0;
    options.relaxed_ordering = options.rank == 0;
  });
  connect();
  ASSERT_TRUE(established());
  EXPECT_EQ(verbs_.device("a0").pkey_index, 3);
  EXPECT_EQ(verbs_.device("b0").pkey_index, 0);
  EXPECT_EQ(verbs_.device("a0").relaxed, 2);
  EXPECT_EQ(verbs_.device("b0").relaxed, 0);
  EXPECT_GT(verbs_.forkInits(), 0);
}

// The rank that is ready first, or last, calls no more, as after a small operation.
TEST_F(VerbsLinks, ComeUpThoughAnEndThatIsReadyLeavesAtOnce) {
  const Key key = Key::random();
  for (const int slow : {0, 1}) {
    for (int rank = 0; rank < 2; ++rank) {
      SocketOptions words{.rank = rank, .key = key, .interfaces = "=lo", .clock = &clock_};
      words.log = Log(LogLevel::kNone);
      ranks_[rank] = makeVerbsTransport(optionsOf(rank), makeSocketTransport(words).take()).take();
    }
    connect();
    const Deadline patience = Deadline::after(clock_, 5000);
    const auto up = [&] { return links_[0]->established() && links_[1]->established(); };
    for (int turn = 0; !up() && !patience.passed(); ++turn)
      for (int rank = 0; rank < 2; ++rank) {
        if (links_[rank]->established() || (rank == slow && turn % 50 != 0)) continue;
        EXPECT_TRUE(ranks_[rank]->progress().ok());
      }
    EXPECT_TRUE(up()) << "slow: rank " << slow;
    for (auto& rank : ranks_) rank.reset();
  }
}

TEST_F(VerbsLinks, UseTheControlTransportWhenNoPathIsLeft) {
  makeRanks(WithoutPaths::kUseControl);
  verbs_.pull(0);
  verbs_.device("b1").registers = false;  // so that the one end loses the one path and the other the other
  connect(1);
  ASSERT_TRUE(established()) << links_[0]->describe();
  EXPECT_TRUE(transfer(1000));
  for (Link* const link : links_) expectParts(link->describe(), {"loopback", "RDMA does not reach rank"});
  for (const char* const name : {"a0", "a1", "b0", "b1"})
    EXPECT_EQ(verbs_.device(name).bytes_sent, 0u) << name;
  // The last message arrives though its sender leaves.
  std::byte* const slot = links_[0]->sender(0).tryAcquire(kWholeSlot);
  ASSERT_NE(slot, nullptr);
  fillPattern(slot, 64, 7);
  links_[0]->sender(0).post(64, 7);
  ranks_[0].reset();
  EXPECT_TRUE(ranks_[1]->progress().ok());
  const Message* const message = links_[1]->receiver(0).tryPeek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(matchPattern(message->data, message->bytes, 7), 64u);
}

TEST_F(VerbsLinks, FailNamingThePortsWhenNoPathIsLeftAndRdmaWasDemanded) {
  makeRanks();
  verbs_.pull(0);
  verbs_.pull(1);
  connect();
  ASSERT_TRUE(failed());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(links_[rank]->status().code(), Code::kSystemError);
    expectParts(links_[rank]->status().message(),
                {rank == 0 ? "rank 0 cannot link to rank 1" : "rank 1 cannot link to rank 0", "port error",
                 "port 1", "HORING_TRANSPORTS"});
  }
}

// Both were ready, so neither may turn to the control transport alone.
TEST_F(VerbsLinks, FailWhenAllPathsAreLostLater) {
  outage_ms_ = 500;
  makeRanks(WithoutPaths::kUseControl);
  connect();
  ASSERT_TRUE(established());
  ASSERT_TRUE(transfer(10));
  for (const int wire : {0, 1}) verbs_.pull(wire, FakeVerbs::Pull::kSilently);
  ASSERT_NE(links_[0]->sender(0).tryAcquire(kWholeSlot), nullptr);
  links_[0]->sender(0).post(64, 0);
  ASSERT_TRUE(failed());
  for (Link* const link : links_) {
    EXPECT_EQ(link->status().code(), Code::kRemoteError);
    expectParts(link->status().message(), {"lost its last RDMA path", "port 1"});
  }
}

// Longer than adapters send again, with messages under way.
TEST_F(VerbsLinks, OutliveAnOutageOfAllPaths) {
  for (const auto how : {FakeVerbs::Pull::kPortsDown, FakeVerbs::Pull::kSilently}) {
    makeRanks();
    connect();
    ASSERT_TRUE(established());
    ASSERT_TRUE(transfer(100));
    EXPECT_FALSE(links_[0]->isMending() || links_[1]->isMending());
    for (const int wire : {0, 1}) verbs_.pull(wire, how);
    ASSERT_NE(links_[0]->sender(0).tryAcquire(kWholeSlot), nullptr);
    links_[0]->sender(0).post(64, 77);
    const Deadline outage = Deadline::after(clock_, 2500);
    ASSERT_TRUE(pumpUntil(ranks_, [&] { return outage.passed(); }));
    for (Link* const link : links_) {
      ASSERT_TRUE(link->status().ok()) << link->status().toString();
      EXPECT_TRUE(link->isMending()) << "the end of rank " << 1 - link->peer();
    }
    for (const int wire : {0, 1}) verbs_.plug(wire);
    const Message* message = nullptr;
    ASSERT_TRUE(pumpUntil(ranks_, [&] { return (message = links_[1]->receiver(0).tryPeek()) != nullptr; }));
    EXPECT_EQ(message->tag, 77u);
    links_[1]->receiver(0).release();
    EXPECT_TRUE(transfer(100));
    EXPECT_FALSE(links_[0]->isMending() || links_[1]->isMending());
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
  }
}

// Nothing that was posted completes any more, not even with an error. Each end knows in the end that neither path comes back.
TEST_F(VerbsLinks, LoseADeviceThatDied) {
  outage_ms_ = 600'000;
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  ASSERT_TRUE(transfer(100));
  verbs_.kill("a0");
  EXPECT_TRUE(transfer(100));
  for (Link* const link : links_) expectParts(link->describe(), {"1 of them lost"});
  verbs_.kill("b1");
  ASSERT_TRUE(failed());
  expectParts(links_[1]->status().message(), {"lost its last RDMA path", "local catastrophic error"});
}

// One end offers the other path again, and the other never answers, as its port is down.
TEST_F(VerbsLinks, FailInTimeThoughAPathIsOffered) {
  makeRanksByPushedClock();
  connect();
  ASSERT_TRUE(established());
  verbs_.unplug("b0");
  EXPECT_TRUE(transfer(100));
  pushed_clock_.advanceNs(1'500'000'000);
  EXPECT_TRUE(transfer(100));
  verbs_.pull(1, FakeVerbs::Pull::kSilently);
  ASSERT_NE(links_[0]->sender(0).tryAcquire(kWholeSlot), nullptr);
  links_[0]->sender(0).post(64, 0);
  const auto lost = [](Link* link) { return link->describe().find("2 of them lost") != std::string::npos; };
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return lost(links_[0]) && lost(links_[1]); }));
  pushed_clock_.advanceNs(31'000'000'000);
  ASSERT_TRUE(failed());
  expectParts(links_[0]->status().message(), {"lost its last RDMA path", "30000 ms"});
}

TEST_F(VerbsLinks, GiveUpAPathWhoseFirstPacketIsNeverAnswered) {
  makeRanksByPushedClock();
  for (const char* const name : {"a0", "b0"}) verbs_.kill(name, FakeVerbs::Death::kSilent);
  connect();
  ASSERT_TRUE(established());
  EXPECT_TRUE(transfer(100));
  const int before = verbs_.resources();  // its queue pairs among them
  pushed_clock_.advanceNs(5'000'000'000);
  EXPECT_TRUE(transfer(100));
  EXPECT_EQ(verbs_.resources(), before);
  pushed_clock_.advanceNs(5'000'000'000);
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return verbs_.resources() == before - 2; }));
  EXPECT_TRUE(transfer(100));
}

TEST_F(VerbsLinks, MoveToTheOtherPathWhenAPortGoesDown) {
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  ASSERT_TRUE(transfer(100));
  verbs_.pull(0);
  const uint64_t before = verbs_.device("a0").bytes_sent;
  EXPECT_TRUE(transfer(100));
  EXPECT_EQ(verbs_.device("a0").bytes_sent, before);
}

TEST_F(VerbsLinks, UseAPathAgainThatComesBack) {
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  ASSERT_TRUE(transfer(100));
  const auto sent = [&] { return verbs_.device("a0").bytes_sent + verbs_.device("b0").bytes_sent; };
  const auto lost = [&] { return links_[0]->describe().find("lost") != std::string::npos; };
  for (const auto how : {FakeVerbs::Pull::kPortsDown, FakeVerbs::Pull::kSilently}) {
    verbs_.pull(0, how);
    ASSERT_TRUE(transfer(100));
    EXPECT_TRUE(lost());
    const uint64_t before = sent();
    verbs_.plug(0);
    ASSERT_TRUE(pumpUntil(
        ranks_, [&] { return !lost() && links_[1]->describe().find("lost") == std::string::npos; }));
    ASSERT_TRUE(transfer(100));
    EXPECT_GT(sent(), before);
  }
  // The other one alone would not do.
  verbs_.pull(1);
  EXPECT_TRUE(transfer(100));
}

// Failed attempts disturb no other link.
TEST_F(VerbsLinks, GoOnWhileALostPathIsTriedInVain) {
  makeRanks();
  connect();
  ASSERT_TRUE(established());
  verbs_.pull(0, FakeVerbs::Pull::kSilently);
  ASSERT_TRUE(transfer(100));
  const Deadline tries = Deadline::after(clock_, 3500);
  while (!tries.passed()) ASSERT_TRUE(transfer(50));
  expectParts(links_[0]->describe(), {"1 of them lost"});
  const int before = verbs_.resources();
  verbs_.plug(0);
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return links_[0]->describe().find("lost") == std::string::npos; }));
  EXPECT_TRUE(transfer(100));
  EXPECT_GE(verbs_.resources(), before);
  for (auto& rank : ranks_) rank.reset();
  EXPECT_EQ(verbs_.resources(), 0);
}

TEST_F(VerbsLinks, ShareWhatIsUnderWayByTheSpeedOfPorts) {
  for (const int gbits : {100, 25}) {
    SCOPED_TRACE(gbits);
    verbs_.device("b1").gbits = gbits;  // the slower end counts
    makeRanks();
    connect();
    ASSERT_TRUE(established());
    for (const char* const name : {"a0", "a1"}) verbs_.device(name).bytes_sent = 0;
    // No rank takes them meanwhile.
    for (int channel = 0; channel < kShape.channels; ++channel)
      while (links_[0]->sender(channel).tryAcquire(kWholeSlot) != nullptr)
        links_[0]->sender(channel).post(4000, 0);
    const uint64_t slow = verbs_.device("a1").bytes_sent / 4000,
                   all = slow + verbs_.device("a0").bytes_sent / 4000;
    EXPECT_EQ(all, 16u);
    EXPECT_EQ(slow, gbits == 100 ? 8u : 3u);
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
  }
}

// By the speed of their ports both are as fast. The receiver takes messages in their order, so that all wait for the slower path.
TEST_F(VerbsLinks, GiveAPathThatIsSlowerThanItsPortsLess) {
  constexpr int kMessages = 600;
  constexpr uint32_t kBytes = 64 << 10;
  struct Case {
    int of_a0, of_a1;  // writes at a time
  };
  for (const auto& [of_a0, of_a1] : {Case{2, 2}, {2, 1}, {1, 2}}) {
    SCOPED_TRACE(std::to_string(of_a0) + ", " + std::to_string(of_a1));
    makeRanks();
    connect(0, {.channels = 1, .slots = 16, .slot_bytes = kBytes});
    ASSERT_TRUE(established());
    for (const char* const name : {"a0", "a1"}) verbs_.device(name).holds = true;
    int posted = 0, received = 0, times = 0;
    for (; received < kMessages && times < kMessages; ++times) {
      for (int round = 0; round < 4; ++round) {
        for (; posted < kMessages && links_[0]->sender(0).tryAcquire(kWholeSlot) != nullptr; ++posted)
          links_[0]->sender(0).post(kBytes, static_cast<Tag>(posted));
        for (auto& rank : ranks_) ASSERT_TRUE(rank->progress().ok());
        while (const Message* const message = links_[1]->receiver(0).tryPeek()) {
          EXPECT_EQ(message->tag, static_cast<Tag>(received++));
          links_[1]->receiver(0).release();
        }
      }
      verbs_.letGo("a0", of_a0);
      verbs_.letGo("a1", of_a1);
    }
    EXPECT_EQ(received, kMessages);
    EXPECT_LE(times, 1.05 * kMessages / (of_a0 + of_a1) + 2)
        << "more than both need, a first and a last time";
    for (const char* const name : {"a0", "a1"}) {
      verbs_.device(name).holds = false;
      verbs_.letGo(name, kMessages);
    }
    for (auto& rank : ranks_) rank.reset();
    hub_.reset();
  }
}

TEST_F(VerbsLinks, AgreeOnTheSmallerPacket) {
  verbs_.device("b1").mtu = IBV_MTU_1024;
  makeRanksWith([](VerbsOptions& options) { options.log = Log(LogLevel::kWarn, options.rank); });
  ::testing::internal::CaptureStderr();
  connect();
  expectParts(::testing::internal::GetCapturedStderr(),
              {"packets to rank 1 have 1024 bytes: a1 port 1 takes 4096 and its b1 port 1 takes 1024"});
  ASSERT_TRUE(established());
  for (const char* const name : {"a0", "b0"}) EXPECT_EQ(verbs_.device(name).path_mtu, IBV_MTU_4096) << name;
  for (const char* const name : {"a1", "b1"}) EXPECT_EQ(verbs_.device(name).path_mtu, IBV_MTU_1024) << name;
}

TEST_F(VerbsLinks, HaveAsManyQueuePairsOfTwoPortsAsBothEndsWant) {
  makeRanksWith([](VerbsOptions& options) { options.queue_pairs = options.rank == 0 ? 8 : 2; });
  connect();
  ASSERT_TRUE(established());
  for (Link* const link : links_) expectParts(link->describe(), {"3 more paths"});
  EXPECT_TRUE(transfer(500));
  verbs_.pull(0);
  EXPECT_TRUE(transfer(500));
  for (Link* const link : links_) expectParts(link->describe(), {"2 of them lost"});
}

TEST_F(VerbsLinks, UseThePortsThatAreNearUntilThoseAreLost) {
  makeRanksWith([](VerbsOptions& options) {
    if (options.rank == 0) options.distance = {{"a0", 5}, {"a1", 2}, {"eth0", 1}};
  });
  connect();
  ASSERT_TRUE(established());
  EXPECT_TRUE(transfer(100));
  for (const char* const name : {"a0", "b0"}) EXPECT_EQ(verbs_.device(name).bytes_sent, 0u) << name;
  verbs_.pull(1);
  EXPECT_TRUE(transfer(100));
  for (const char* const name : {"a0", "b0"}) EXPECT_GT(verbs_.device(name).bytes_sent, 0u) << name;
}

TEST_F(VerbsLinks, ReachNoPortOfAnotherKind) {
  for (const char* const name : {"b0", "b1"}) verbs_.device(name).infiniband = true;
  makeRanks();
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<std::byte> theirs = ranks_[1 - rank]->address();
    EXPECT_FALSE(ranks_[rank]->canReach(theirs));
    const Status refused = ranks_[rank]->connect(1 - rank, theirs, kShape, 0).status();
    EXPECT_EQ(refused.code(), Code::kInvalidUsage);
    expectParts(refused.message(), {"rank 0", "rank 1", "a0 port 1 (RoCE v1, 10.99.0.1/",
                                    "b1 port 1 (InfiniBand, ", "HORING_IB_HCA"});
    EXPECT_FALSE(ranks_[rank]->whyUnreachable(theirs).empty());
  }
}

TEST_F(VerbsLinks, AreRefusedWithTheReasonOfEachPort) {
  VerbsOptions options = optionsOf(0);
  verbs_.device("a1").active = false;
  verbs_.device("b0").opens = false;
  options.devices = "=a1,b7";
  const Status refused = make(options).status();
  EXPECT_EQ(refused.code(), Code::kSystemError);
  expectParts(refused.message(), {"rank 0 cannot use RDMA", "HORING_IB_HCA==a1,b7", "a0 port 1 is not chosen",
                                  "a1 port 1 is not active",
                                  "b0 cannot be opened, for which this process must read and write "
                                  "/dev/infiniband/b0: No such file"});
}

TEST_F(VerbsLinks, AreRefusedByAdaptersOfAnotherKind) {
  verbs_.device("a0").foreign = verbs_.device("a1").foreign = true;
  const Status refused = make(optionsOf(0)).status();
  EXPECT_EQ(refused.code(), Code::kSystemError);
  expectParts(refused.message(), {"a0 speaks neither InfiniBand nor RoCE (EFA", "a1 speaks"});
}

TEST_F(VerbsLinks, AreRefusedWithATimeoutThatIsTooShort) {
  VerbsOptions options = optionsOf(0);
  options.timeout = 7;
  const Status refused = make(options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  expectParts(refused.message(), {"HORING_IB_TIMEOUT=7", "8 to 22"});
}

// Fabrics have one address each, which needs no number.
TEST_F(VerbsLinks, AskNoPortOfInfinibandForAnAddressOfRoce) {
  VerbsOptions options = optionsOf(0);
  options.gid_index = 3;
  verbs_.device("a1").infiniband = true;
  const auto made = make(options);
  EXPECT_TRUE(made.ok()) << made.status().toString();
}

TEST_F(VerbsLinks, AreRefusedWithTheAddressesThereAre) {
  VerbsOptions options = optionsOf(0);
  options.gid_index = 3;
  const Status refused = make(options).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  expectParts(refused.message(), {"HORING_IB_GID_INDEX=3", "a0 port 1 has no such address", "0 (RoCE v1)"});
}

TEST_F(VerbsLinks, AreRefusedWithTheLimitOnLockedMemory) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{.rlim_cur = 65536, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  VerbsOptions options = optionsOf(0);
  options.locked_bytes = 1 << 20;
  verbs_.device("a0").registers = false;
  const Status refused = make(options).status();
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(refused.code(), Code::kSystemError);
  expectParts(refused.message(),
              {"a0 port 1 may not lock 1048576 more bytes", "65536 bytes in all", "ulimit -l unlimited",
               "LimitMEMLOCK=infinity", "HORING_TRANSPORTS=shm,socket"});
}

}  // namespace
}  // namespace horing::testing
