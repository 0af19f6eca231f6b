// The verbs transport beyond the contract: what needs no device first, then what does.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "../rdma_machine.h"
#include "contract_ranks.h"
#include "transport/verbs/device.h"
#include "transport/verbs/device_selection.h"
#include "transport/verbs/published.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_devices.h"

namespace horing::testing {
namespace {

using verbs::chooseGid;
using verbs::DeviceSelection;
using verbs::GidEntry;
using verbs::Immediate;
using verbs::pairPorts;
using verbs::PortPair;
using verbs::Published;
using verbs::PublishedPort;

DeviceSelection selectionOf(const char* text) {
  Result<DeviceSelection> parsed = DeviceSelection::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().toString();
  return parsed.ok() ? parsed.take() : DeviceSelection();
}

TEST(VerbsChoice, DevicesAreChosenByPrefixNameAndPort) {
  EXPECT_TRUE(selectionOf("").chooses("mlx5_0", 1));
  EXPECT_TRUE(selectionOf("mlx5").chooses("mlx5_10", 2));
  EXPECT_FALSE(selectionOf("=mlx5_1").chooses("mlx5_10", 1));
  EXPECT_TRUE(selectionOf("mlx5_0:2,rxe0").chooses("mlx5_0", 2));
  EXPECT_FALSE(selectionOf("mlx5_0:2,rxe0").chooses("mlx5_0", 1));
  EXPECT_TRUE(selectionOf("mlx5_0:2,rxe0").chooses("rxe0", 1));
  EXPECT_FALSE(selectionOf("^=mlx5_1").chooses("mlx5_1", 1));
  EXPECT_TRUE(selectionOf("^=mlx5_1").chooses("mlx5_10", 1));
}

TEST(VerbsChoice, RefusesWhatIsNoListOfDevices) {
  for (const char* text : {",", "a,,b", ":1", "a:", "a:0", "a:256", "a:1x", "a:b"}) {
    const Result<DeviceSelection> parsed = DeviceSelection::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("HORING_IB_HCA"), std::string::npos);
  }
}

GidEntry gid(int index, GidEntry::Kind kind, std::initializer_list<int> first, int last = 1) {
  GidEntry entry{.index = index, .gid = {}, .kind = kind};
  size_t at = 0;
  for (const int byte : first) entry.gid.raw[at++] = static_cast<uint8_t>(byte);
  entry.gid.raw[15] = static_cast<uint8_t>(last);
  return entry;
}
const auto kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0};

TEST(VerbsChoice, PrefersRoutableAddressesOfRoceVersion2) {
  using enum GidEntry::Kind;
  const std::vector<GidEntry> table = {gid(0, kRoce1, {0xfe, 0x80}), gid(1, kRoce2, {0xfe, 0x80}),
                                       gid(2, kRoce1, kMapped), gid(3, kRoce2, {0x20, 0x01}),
                                       gid(5, kRoce2, kMapped)};
  const auto chosenOf = [&](size_t rows) {
    return chooseGid(std::span(table).first(rows), -1, "x port 1").value().index;
  };
  EXPECT_EQ(chosenOf(5), 5);
  EXPECT_EQ(chosenOf(4), 3);
  EXPECT_EQ(chosenOf(3), 1);
  EXPECT_EQ(chosenOf(1), 0);
  EXPECT_EQ(chooseGid(table, 2, "x port 1").value().index, 2);
}

TEST(VerbsChoice, ExplainsAnAddressThatIsNotThere) {
  using enum GidEntry::Kind;
  const std::vector<GidEntry> table = {gid(0, kRoce1, kMapped), gid(1, kRoce2, kMapped)};
  const Status refused = chooseGid(table, 4, "mlx5_0 port 1").status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  for (const char* part : {"HORING_IB_GID_INDEX=4", "mlx5_0 port 1", "0 (RoCE v1)", "1 (RoCE v2)"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
  EXPECT_FALSE(chooseGid({}, -1, "mlx5_0 port 1").ok());
}

PublishedPort portOf(const GidEntry& entry, bool infiniband = false) {
  PublishedPort port{.mbps = 100000,
                     .lid = 7,
                     .mtu = IBV_MTU_4096,
                     .kind = infiniband ? GidEntry::Kind::kInfiniband : GidEntry::Kind::kRoce2,
                     .subnet = {.bits = 120, .routed = false},
                     .name = "mlx5_0 port 1"};
  std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), port.gid.begin());
  return port;
}
PublishedPort roce(int subnet, int host) {
  return portOf(
      gid(1, GidEntry::Kind::kRoce2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, subnet}, host));
}
PublishedPort infiniband(int subnet, int host) {
  return portOf(gid(0, GidEntry::Kind::kInfiniband, {0xfe, 0x80, 0, 0, 0, 0, 0, subnet}, host), true);
}

TEST(VerbsChoice, PairsPortsOfOneSubnet) {
  const std::vector<PublishedPort> lower = {roce(0, 1), roce(1, 1)};
  const std::vector<PublishedPort> higher = {roce(1, 2), roce(0, 2), roce(2, 2)};
  EXPECT_EQ(pairPorts(lower, higher), (std::vector<PortPair>{{0, 1}, {1, 0}}));
}

// Two wires that nothing joins: a port with none on its own wire is left alone, whatever its place in the list.
TEST(VerbsChoice, PairsNoPortsOfSubnetsThatDoNotReachEachOther) {
  EXPECT_TRUE(pairPorts(std::vector{roce(4, 1)}, std::vector{roce(5, 2)}).empty());
  EXPECT_EQ(pairPorts(std::vector{roce(4, 1), roce(5, 1)}, std::vector{roce(6, 2), roce(4, 2)}),
            (std::vector<PortPair>{{0, 1}}));
  PublishedPort narrow = roce(4, 1), wide = roce(5, 2);
  narrow.subnet.bits = wide.subnet.bits = 112;
  EXPECT_EQ(pairPorts(std::vector{narrow}, std::vector{wide}).size(), 1u) << "one /16";
  narrow.subnet.bits = 120;
  EXPECT_TRUE(pairPorts(std::vector{narrow}, std::vector{wide}).empty()) << "one of them would have to guess";
}

TEST(VerbsChoice, PairsPortsOfRoutedSubnetsAfterThoseOfOne) {
  const auto routed = [](int subnet, int host) {
    PublishedPort port = roce(subnet, host);
    port.subnet.routed = true;
    return port;
  };
  EXPECT_EQ(pairPorts(std::vector{routed(4, 1)}, std::vector{routed(5, 2)}).size(), 1u);
  EXPECT_TRUE(pairPorts(std::vector{routed(4, 1)}, std::vector{roce(5, 2)}).empty()) << "no way back";
  // The first port would do with any, and leaves its best to the second, for which it is the subnet's.
  EXPECT_EQ(pairPorts(std::vector{routed(4, 1), routed(5, 1)}, std::vector{routed(5, 2), routed(6, 2)}),
            (std::vector<PortPair>{{1, 0}, {0, 1}}));
  PublishedPort v1 = routed(4, 1), v1_too = routed(5, 2), v6 = routed(4, 1);
  v1.kind = v1_too.kind = GidEntry::Kind::kRoce1;
  EXPECT_TRUE(pairPorts(std::vector{v1}, std::vector{v1_too}).empty()) << "RoCE v1 has no routers";
  EXPECT_TRUE(pairPorts(std::vector{v1}, std::vector{routed(4, 2)}).empty()) << "two versions of RoCE";
  v6.gid[0] = 0x20;
  EXPECT_TRUE(pairPorts(std::vector{v6}, std::vector{routed(4, 2)}).empty()) << "IPv6 and IPv4";
}

TEST(VerbsChoice, PairsNearPortsThenThoseNamedAlikeThenThoseOfOnePlace) {
  std::vector<PublishedPort> lower, higher;
  for (int i = 0; i < 4; ++i) {
    lower.push_back(roce(0, i + 1));
    higher.push_back(roce(0, i + 11));
    lower.back().name = higher.back().name = "mlx5_" + std::to_string(i) + " port 1";
  }
  std::swap(higher[1], higher[2]);
  EXPECT_EQ(pairPorts(lower, higher), (std::vector<PortPair>{{0, 0}, {3, 3}, {1, 2}, {2, 1}}));
  for (PublishedPort& port : higher) port.name = "rxe" + port.name;
  EXPECT_EQ(pairPorts(lower, higher), (std::vector<PortPair>{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
  lower[0].near = lower[1].near = higher[2].near = higher[3].near = false;
  EXPECT_EQ(pairPorts(lower, higher), (std::vector<PortPair>{{2, 1}, {3, 0}, {1, 2}, {0, 3}}));
}

TEST(VerbsSubnet, IsThatOfTheInterfaceWithTheAddress) {
  ibv_gid loopback{};
  loopback.raw[10] = loopback.raw[11] = 0xff;
  loopback.raw[12] = 127;
  loopback.raw[15] = 1;
  EXPECT_EQ(verbs::subnetOf(loopback), (verbs::Subnet{.bits = 104, .routed = false}));
  const ibv_gid nowhere =
      gid(1, GidEntry::Kind::kRoce2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2}).gid;
  EXPECT_EQ(verbs::subnetOf(nowhere), (verbs::Subnet{.bits = 120, .routed = true})) << "nobody can say";
  const ibv_gid link_local = gid(0, GidEntry::Kind::kRoce2, {0xfe, 0x80}).gid;
  EXPECT_EQ(verbs::subnetOf(link_local), (verbs::Subnet{.bits = 64, .routed = false}));
}

TEST(VerbsChoice, PairsNoPortsOfDifferentKinds) {
  EXPECT_TRUE(pairPorts(std::vector{roce(0, 1)}, std::vector{infiniband(0, 2)}).empty());
  EXPECT_TRUE(pairPorts(std::vector{infiniband(0, 1)}, std::vector{infiniband(1, 2)}).empty());
  EXPECT_EQ(pairPorts(std::vector{infiniband(0, 1), roce(0, 1)}, std::vector{roce(0, 2), infiniband(0, 2)}),
            (std::vector<PortPair>{{0, 1}, {1, 0}}));
}

TEST(VerbsPublished, ComesBackAsItWas) {
  const Published said{.ports = {roce(0, 1), infiniband(3, 4)}, .control = {std::byte{1}, std::byte{2}}};
  const Result<Published> heard = Published::decode(said.encode());
  ASSERT_TRUE(heard.ok());
  ASSERT_EQ(heard.value().ports.size(), 2u);
  EXPECT_EQ(heard.value().ports[1].gid, said.ports[1].gid);
  EXPECT_TRUE(heard.value().ports[1].infiniband());
  EXPECT_EQ(heard.value().ports[0].name, "mlx5_0 port 1");
  EXPECT_EQ(heard.value().control, said.control);
}

TEST(VerbsPublished, SurvivesHostileBytes) {
  const std::vector<std::byte> good = Published{.ports = {roce(0, 1)}, .control = {}}.encode();
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(Published::decode(std::span(good).first(bytes)).ok()) << bytes;
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bent = good;
    for (int i = 0; i < 3; ++i) bent[random() % bent.size()] = static_cast<std::byte>(random());
    const Result<Published> heard = Published::decode(bent);
    if (!heard.ok()) continue;
    EXPECT_LT(heard.value().ports.front().name.size(), 32u);
  }
}

TEST(VerbsImmediate, NumbersComeBackWhole) {
  for (const uint64_t near : {uint64_t{0}, uint64_t{1} << 27, (uint64_t{1} << 27) - 1, uint64_t{123} << 40})
    for (const int64_t away : {0, 1, 127, 1 << 20, -1, -127}) {
      const uint64_t number = near + static_cast<uint64_t>(away);
      if (near == 0 && away < 0) continue;
      const Immediate back = Immediate::unpack(Immediate::pack(Immediate::Kind::kData, 7, number));
      EXPECT_EQ(back.widen(near), number);
      EXPECT_EQ(back.channel, 7u);
      EXPECT_EQ(back.kind, Immediate::Kind::kData);
    }
}

// --- With devices.
class VerbsDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (rdmaDevices().empty())
      GTEST_SKIP() << "this machine has no RDMA device; tools/dev test --rdma makes some";
  }
  Status makeWith(VerbsOptions options) {
    auto control = makeSocketTransport({.rank = 0, .key = key_, .interfaces = "=lo", .clock = &clock_});
    if (!control.ok()) return control.status();
    options.clock = &clock_;
    return makeVerbsTransport(options, control.take()).status();
  }
  SteadyClock clock_;
  Key key_ = Key::random();
};

TEST_F(VerbsDevices, RefusesAnAddressThatIsNotThere) {
  const Status refused = makeWith({.gid_index = 200});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("HORING_IB_GID_INDEX=200"), std::string::npos) << refused.message();
}

TEST_F(VerbsDevices, SaysWhyNoDeviceServes) {
  const Status refused = makeWith({.devices = "nosuch"});
  EXPECT_EQ(refused.code(), Code::kSystemError);
  EXPECT_NE(refused.message().find(rdmaDevices().front()), std::string::npos) << refused.message();
}

// The administrator's rights, which know no such limit, are laid down meanwhile.
class LimitOfLockedMemory {
 public:
  explicit LimitOfLockedMemory(rlim_t bytes) {
    ::getrlimit(RLIMIT_MEMLOCK, &before_);
    const rlimit low{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
    EXPECT_EQ(::syscall(SYS_capget, &header_, rights_), 0);
    __user_cap_data_struct fewer[2] = {rights_[0], rights_[1]};
    fewer[0].effective &= ~(1u << CAP_IPC_LOCK);
    EXPECT_EQ(::syscall(SYS_capset, &header_, fewer), 0);
  }
  ~LimitOfLockedMemory() {
    EXPECT_EQ(::syscall(SYS_capset, &header_, rights_), 0);
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0);
  }

 private:
  rlimit before_{};
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights_[2]{};
};

TEST_F(VerbsDevices, SaysWhichLimitOnLockedMemoryIsTooLowAndHowToRaiseIt) {
  const LimitOfLockedMemory limit(1 << 20);
  const Status refused = makeWith({.locked_bytes = 4 << 20});
  EXPECT_EQ(refused.code(), Code::kSystemError);
  for (const char* part :
       {"4194304 more bytes", "1048576 bytes in all", "ulimit -l unlimited", "LimitMEMLOCK"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
  EXPECT_TRUE(makeWith({.locked_bytes = 1 << 16}).ok());
}

// A process that is killed leaves no word, and its adapter answers no more.
TEST_F(VerbsDevices, FailsALinkWhosePeerIsKilled) {
  int up[2], down[2];
  ASSERT_EQ(::pipe(up) + ::pipe(down), 0);
  const LinkShape shape{.channels = 1, .slots = 4, .slot_bytes = 4096};
  // Ends by the timeout at the latest: no wait is unbounded.
  const auto live = [&](int rank, int to, int from, const std::function<bool(Link&)>& done) {
    auto made = makeVerbsOverLoopback(rank, key_, clock_, rank == 0 ? "=rxe0" : "=rxe1");
    if (!made.ok()) return made.status();
    const std::vector<std::byte> mine = made.value()->address();
    std::vector<std::byte> theirs(mine.size());
    if (::write(to, mine.data(), mine.size()) != static_cast<ssize_t>(mine.size()) ||
        ::read(from, theirs.data(), theirs.size()) != static_cast<ssize_t>(theirs.size()))
      return systemError(errno, "exchange addresses");
    const auto link = made.value()->connect(1 - rank, theirs, shape);
    if (!link.ok()) return link.status();
    const Deadline deadline = Deadline::after(clock_, kPatienceMs);
    while (made.value()->progress().ok() && !done(*link.value()) && !deadline.passed()) {
    }
    return link.value()->status();
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(live(1, up[1], down[0], [](Link&) { return false; }).ok() ? 0 : 1);
  bool killed = false;
  const Status ended = live(0, down[1], up[0], [&](Link& link) {
    if (!link.established() || killed) return false;
    killed = ::kill(child, SIGKILL) == 0;
    return false;
  });
  EXPECT_TRUE(killed);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ended.code(), Code::kRemoteError) << ended.toString();
  EXPECT_NE(ended.message().find("rank 1"), std::string::npos) << ended.message();
  for (const int fd : {up[0], up[1], down[0], down[1]}) ::close(fd);
}

// Rank 0 is on node A and rank 1 on node B; between them are both wires.
class VerbsWires : public VerbsDevices {
 protected:
  static constexpr LinkShape kShape{.channels = 2, .slots = 8, .slot_bytes = 65536};

  void TearDown() override {
    for (const int wire : pulled_) EXPECT_TRUE(plugWire(wire));
  }
  bool makeRanks() {
    const char* const devices[] = {"=rxe0,rxe2", "=rxe1,rxe3"};
    for (int rank = 0; rank < 2; ++rank) {
      auto made = makeVerbsOverLoopback(rank, key_, clock_, devices[rank], outage_ms_);
      EXPECT_TRUE(made.ok()) << made.status().toString();
      if (!made.ok()) return false;
      ranks_[rank] = made.take();
    }
    return true;
  }
  // True when both ends are up.
  bool linkRanks() {
    for (int rank = 0; rank < 2; ++rank) {
      auto link = ranks_[rank]->connect(1 - rank, ranks_[1 - rank]->address(), kShape);
      EXPECT_TRUE(link.ok()) << link.status().toString();
      if (!link.ok()) return false;
      links_[rank] = link.value();
    }
    return pumpUntil(ranks_, [&] { return links_[0]->established() && links_[1]->established(); });
  }
  void pull(int wire) {
    pulled_.push_back(wire);
    EXPECT_TRUE(pullWire(wire));
  }
  void plug(int wire) {
    EXPECT_TRUE(plugWire(wire));
    std::erase(pulled_, wire);
  }
  // Until both ends say that so many paths are lost.
  bool awaitLost(int paths) {
    const std::string lost = paths == 0 ? "lost" : std::to_string(paths) + " of them lost";
    return pumpUntil(ranks_, [&] {
      return std::all_of(std::begin(links_), std::end(links_), [&](const Link* link) {
        return (link->describe().find(lost) == std::string::npos) == (paths == 0);
      });
    });
  }
  // Messages in both directions on both channels, until each has had so many.
  struct Flow {
    Sender* sender;
    Receiver* receiver;
    uint64_t seed, sent = 0, received = 0, wrong = 0;
  };
  void expectHealthy(const std::vector<Flow>& all, uint64_t messages) {
    for (Link* const link : links_) EXPECT_TRUE(link->status().ok()) << link->status().toString();
    for (const Flow& flow : all) {
      EXPECT_EQ(flow.received, messages);
      EXPECT_EQ(flow.wrong, 0u);
    }
  }
  std::vector<Flow> flows() {
    std::vector<Flow> all;
    for (int rank = 0; rank < 2; ++rank)
      for (int channel = 0; channel < kShape.channels; ++channel)
        all.push_back(
            {&links_[rank]->sender(channel), &links_[1 - rank]->receiver(channel), all.size() << 32});
    return all;
  }
  static bool step(Flow& flow, uint64_t messages) {
    if (std::byte* const slot = flow.sent < messages ? flow.sender->tryAcquire(kWholeSlot) : nullptr) {
      fillPattern(slot, 20'000, flow.seed + flow.sent);
      flow.sender->post(20'000, flow.seed + flow.sent++);
    }
    if (const Message* const message = flow.receiver->tryPeek()) {
      const uint64_t next = flow.seed + flow.received++;
      const bool right = message->tag == next && matchPattern(message->data, message->bytes, next) == 20'000;
      flow.wrong += right ? 0 : 1;
      flow.receiver->release();
    }
    return flow.received == messages;
  }
  bool transfer(std::vector<Flow>& all, uint64_t messages) {
    return pumpUntil(ranks_, [&] {
      size_t done = 0;
      for (Flow& flow : all) done += step(flow, messages) ? 1 : 0;
      return done == all.size() || !links_[0]->status().ok() || !links_[1]->status().ok();
    });
  }

  int64_t outage_ms_ = 30'000;
  std::vector<int> pulled_;
  std::unique_ptr<Transport> ranks_[2];
  Link* links_[2] = {};
};

TEST_F(VerbsWires, MovesToTheOtherDeviceWhenAWireIsPulled) {
  ASSERT_TRUE(makeRanks() && linkRanks());
  EXPECT_NE(links_[0]->describe().find("1 more path"), std::string::npos) << links_[0]->describe();
  std::vector<Flow> all = flows();
  ASSERT_TRUE(transfer(all, 20));
  // With messages under way.
  for (Flow& flow : all) step(flow, 400);
  std::thread puller([&] { pull(0); });
  const bool done = transfer(all, 400);
  puller.join();
  for (Flow& flow : all) step(flow, 410);
  EXPECT_TRUE(done);
  EXPECT_TRUE(transfer(all, 450)) << "by the wire that is left";
  for (Link* const link : links_)
    EXPECT_NE(link->describe().find("1 of them lost"), std::string::npos) << link->describe();
  expectHealthy(all, 450);
}

TEST_F(VerbsWires, UsesAWireAgainThatIsPluggedIn) {
  ASSERT_TRUE(makeRanks() && linkRanks());
  std::vector<Flow> all = flows();
  ASSERT_TRUE(transfer(all, 10));
  pull(0);
  ASSERT_TRUE(transfer(all, 100));
  ASSERT_TRUE(awaitLost(1));
  plug(0);
  ASSERT_TRUE(awaitLost(0));
  EXPECT_TRUE(transfer(all, 200));
  // By it alone.
  pull(1);
  EXPECT_TRUE(transfer(all, 300));
  expectHealthy(all, 300);
}

// Whether it was there when the ports were opened or not.
TEST_F(VerbsWires, ComesUpOnTheOtherWireWhileOneIsPulled) {
  pull(0);
  ASSERT_TRUE(makeRanks() && linkRanks());
  std::vector<Flow> all = flows();
  EXPECT_TRUE(transfer(all, 50));
  for (Link* const link : links_)
    EXPECT_EQ(link->describe().find("more path"), std::string::npos) << link->describe();
  expectHealthy(all, 50);
  for (auto& rank : ranks_) rank.reset();
  plug(0);

  ASSERT_TRUE(makeRanks());
  pull(0);
  ASSERT_TRUE(linkRanks());
  all = flows();
  EXPECT_TRUE(transfer(all, 50));
  EXPECT_TRUE(awaitLost(1));
  plug(0);
  ASSERT_TRUE(awaitLost(0));
  pull(1);
  EXPECT_TRUE(transfer(all, 100)) << "by the wire that came later";
  expectHealthy(all, 100);
}

TEST_F(VerbsWires, FailsNamingRankAndDeviceWhenNoWireIsLeft) {
  outage_ms_ = 1000;
  ASSERT_TRUE(makeRanks() && linkRanks());
  std::vector<Flow> all = flows();
  ASSERT_TRUE(transfer(all, 10));
  pull(0);
  pull(1);
  for (Flow& flow : all) step(flow, 20);
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return !links_[0]->status().ok() && !links_[1]->status().ok(); }));
  for (int rank = 0; rank < 2; ++rank) {
    const Status& status = links_[rank]->status();
    EXPECT_EQ(status.code(), Code::kRemoteError);
    for (const std::string& part : {"rank " + std::to_string(1 - rank), std::string("rxe")})
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace horing::testing
