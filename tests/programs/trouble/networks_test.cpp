// Two ranks on two nodes whose network is odd: interfaces that lead nowhere, and addresses that are seldom met. Each test makes
// the network for itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../../sanitizer.h"
#include "../../temporary_folder.h"
#include "job.h"

namespace horing::test {
namespace {

// Namespaces a and b: $A and $B run a command in them. `wire NAME` joins them by a pair of interfaces of that name; `stub NAME`
// gives each an interface that is up, with nothing at its other end.
constexpr const char* kNetwork = R"(
mount -t tmpfs none /run; mkdir /run/netns; ip netns add a; ip netns add b
A="nsenter --net=/run/netns/a"; B="nsenter --net=/run/netns/b"
up() { for n in a b; do nsenter --net=/run/netns/$n ip link set $1 up; done; }
wire() { ip link add $1 netns a type veth peer name $1 netns b; up $1; }
stub() { for n in a b; do ip link add $1 netns $n type veth peer name far$1 netns $n
  nsenter --net=/run/netns/$n ip link set far$1 up; done; up $1; }
# The kernel says within a second that a carrier is gone.
gone() { for n in a b; do for i in $(seq 100); do
  nsenter --net=/run/netns/$n ip link show $1 | grep -q NO-CARRIER && break; sleep 0.05; done; done; }
a() { $A ip addr add $1 dev $2 nodad; }
b() { $B ip addr add $1 dev $2 nodad; }
up lo
)";

struct Network {
  std::string setup;
  std::string root;                // host:port where rank 0 listens, in a
  std::string words = "rounds=3";  // of rank_program
  std::string environment = "X=";  // of both
  std::string meanwhile = "true";  // while they run
};

JobOutcome runOn(const Network& network) {
  const TemporaryFolder folder;
  const std::string key = folder.path() / "key";
  std::ofstream(key) << std::string(32, 'k');
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  const std::string rank =
      " env " + network.environment + " WORLD_SIZE=2 HORING_TRANSPORTS=socket HORING_ROOT=" + network.root +
      " HORING_KEY_FILE=" + key + " HORING_CALIBRATE=0 HORING_CACHE_DIR=off HORING_GROUP=node-";
  const std::string program = std::string(" ") + HORING_RANK_PROGRAM + " " + network.words;
  const std::string script = "set -e\n" + std::string(kNetwork) + network.setup + "\nset +e\n" + "$A" + rank +
                             "a RANK=0" + program + " & first=$!\n" + "$B" + rank + "b RANK=1" + program +
                             " & second=$!\n" + network.meanwhile +
                             "\nwait $first; code=$?; wait $second && exit $code\n";
  Program job(
      {"unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script});
  return endOf(job);
}

#define HORING_NEEDS_NAMESPACES()                                                                           \
  if (runProgram({"unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", kNetwork}) \
          .code != 0)                                                                                       \
  GTEST_SKIP() << "this process may make no network namespaces"

void expectBothEnd(const JobOutcome& outcome, double most_ms) {
  for (const int rank : {0, 1}) {
    EXPECT_EQ(eventOf(outcome.events, "collective", rank).code, kSuccess) << outcome.everything;
    EXPECT_LT(eventOf(outcome.events, "join", rank).took_ms, most_ms) << outcome.everything;
  }
  for (const Event& event : outcome.events) EXPECT_LT(event.took_ms, most_ms) << event.text;
}

constexpr double kWithinSecondsMs = 15'000;

TEST(AddressesSeldomMet, OfTheLoopbackInterfaceInARoutedFabric) {
  HORING_NEEDS_NAMESPACES();
  expectBothEnd(runOn({.setup = R"(wire eth0; a 10.255.0.1/32 lo; b 10.255.0.2/32 lo
    $A ip route add 10.255.0.2/32 dev eth0 src 10.255.0.1; $B ip route add 10.255.0.1/32 dev eth0 src 10.255.0.2)",
                       .root = "10.255.0.1:4711"}),
                kWithinSecondsMs);
}

TEST(AddressesSeldomMet, LinkLocalOfIpv6) {
  HORING_NEEDS_NAMESPACES();
  for (const char* root : {"[fe80::a%eth1]:4711", "[fe80::a]:4711"})
    expectBothEnd(runOn({.setup = "stub eth0; wire eth1; a fe80::a/64 eth1; b fe80::b/64 eth1",
                         .root = root,
                         .environment = "HORING_SOCKET_IFNAME=eth1"}),
                  kWithinSecondsMs);
}

TEST(AddressesSeldomMet, LinkLocalOfIpv4) {
  HORING_NEEDS_NAMESPACES();
  expectBothEnd(runOn({.setup = R"(stub eth0; wire eth1; a 169.254.7.1/16 eth1; b 169.254.7.2/16 eth1
    a 169.254.8.1/16 eth0; b 169.254.8.2/16 eth0)",
                       .root = "169.254.7.1:4711",
                       .environment = "HORING_SOCKET_IFNAME=eth1"}),
                kWithinSecondsMs);
}

TEST(AddressesSeldomMet, TheSecondOfAnInterface) {
  HORING_NEEDS_NAMESPACES();
  expectBothEnd(runOn({.setup = R"(wire eth0; a 10.1.0.1/24 eth0; b 10.2.0.1/24 eth0
    a 10.9.0.1/24 eth0; b 10.9.0.2/24 eth0)",
                       .root = "10.9.0.1:4711"}),
                kWithinSecondsMs);
}

TEST(InterfaceThatLeadsNowhere, ASecondRailIsLeftOut) {
  HORING_NEEDS_NAMESPACES();
  const JobOutcome outcome = runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    stub eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1)",
                                    .root = "10.0.0.1:4711"});
  expectBothEnd(outcome, kWithinSecondsMs);
  EXPECT_NE(outcome.everything.find("continues without the path eth1 10.0.1.1 -> 10.0.1.2"),
            std::string::npos)
      << outcome.everything;
}

TEST(InterfaceThatLeadsNowhere, OneWithoutACarrierIsNotTried) {
  HORING_NEEDS_NAMESPACES();
  const JobOutcome outcome = runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    stub eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1; $A ip link set fareth1 down; $B ip link set fareth1 down; gone eth1)",
                                    .root = "10.0.0.1:4711"});
  expectBothEnd(outcome, kWithinSecondsMs);
  EXPECT_EQ(outcome.everything.find("continues without"), std::string::npos) << outcome.everything;
}

TEST(InterfaceThatLeadsNowhere, BridgesWithOneSubnetOnEveryNode) {
  HORING_NEEDS_NAMESPACES();
  // The nodes have no subnet in common but that of their bridges, whose addresses differ or do not.
  for (const char* address : {"192.168.50.1/24", "192.168.50.2/24"})
    expectBothEnd(runOn({.setup = std::string(R"(wire eth0; a 10.1.0.1/24 eth0; b 10.2.0.1/24 eth0
      $A ip route add 10.2.0.0/24 dev eth0; $B ip route add 10.1.0.0/24 dev eth0
      for n in a b; do ip link add br0 netns $n type bridge; ip link add p0 netns $n type veth peer name p1 netns $n
        nsenter --net=/run/netns/$n ip link set p0 master br0 up; nsenter --net=/run/netns/$n ip link set p1 up; done
      up br0; a 192.168.50.1/24 br0; b )") +
                                  address + " br0",
                         .root = "10.1.0.1:4711"}),
                  kWithinSecondsMs);
}

TEST(InterfaceThatLeadsNowhere, NoneIsAnErrorThatNamesWhatWasTried) {
  HORING_NEEDS_NAMESPACES();
  const JobOutcome outcome = runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    stub eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1)",
                                    .root = "10.0.0.1:4711",
                                    .environment = "HORING_SOCKET_IFNAME=eth1"});
  const Event failure = failureOf(outcome.events, 0);
  EXPECT_NE(failure.text.find("eth1 10.0.1.1 -> 10.0.1.2:"), std::string::npos) << outcome.everything;
  EXPECT_NE(failure.text.find("HORING_SOCKET_IFNAME"), std::string::npos) << outcome.everything;
  EXPECT_NE(outcome.everything.find("does not reach rank 1 yet"), std::string::npos) << outcome.everything;
  for (const Event& event : outcome.events) EXPECT_LT(event.took_ms, 50'000) << event.text;
}

// It leads to 127.0.0.1, and to the address of another interface of the same machine.
TEST(LoopbackThatIsDown, IsNamedWithinSeconds) {
  HORING_NEEDS_NAMESPACES();
  for (const char* root : {"127.0.0.1:4711", "10.0.0.1:4711"}) {
    const JobOutcome outcome = runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
      for n in a b; do nsenter --net=/run/netns/$n ip link set lo down; done)",
                                      .root = root});
    const Event failure = failureOf(outcome.events, 0);
    EXPECT_NE(failure.text.find("loopback interface, which is down: `ip link set lo up`"), std::string::npos)
        << outcome.everything;
    EXPECT_LT(failure.took_ms, 4'000 * kSlowdown) << failure.text;
  }
}

TEST(LoopbackThatIsDown, MayComeUpAfterTheRanksStarted) {
  HORING_NEEDS_NAMESPACES();
  expectBothEnd(runOn({.setup = "wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0; $A ip link set lo down",
                       .root = "10.0.0.1:4711",
                       .meanwhile = "sleep 1; $A ip link set lo up"}),
                kWithinSecondsMs);
}

TEST(WallBetweenNodes, IsSaidLongBeforeTheDeadline) {
  HORING_NEEDS_NAMESPACES();
  const JobOutcome outcome = runOn({.setup = "stub eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1",
                                    .root = "10.0.1.1:4711",
                                    .environment = "HORING_INIT_TIMEOUT_MS=14000"});
  EXPECT_NE(outcome.everything.find("no answer yet from the rendezvous at 10.0.1.1:4711"), std::string::npos)
      << outcome.everything;
  EXPECT_EQ(failureOf(outcome.events, 1).code, kTimeout) << outcome.everything;
}

// The machines answer everything else.
TEST(WallBetweenNodes, DropsOnlyDataConnections) {
  HORING_NEEDS_NAMESPACES();
  const JobOutcome outcome = runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    for in in "$A" "$B"; do $in tc qdisc add dev eth0 root handle 1: htb default 1
      for i in 1 3; do $in tc class add dev eth0 parent 1: classid 1:$i htb rate 10gbit; done
      $in tc qdisc add dev eth0 parent 1:3 bfifo limit 1
      $in tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 4711 0xffff flowid 1:1
      $in tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip protocol 6 0xff match u8 2 0xff at 33 flowid 1:3
    done)",
                                    .root = "10.0.0.1:4711",
                                    .environment = "HORING_TIMEOUT_MS=12000"});
  EXPECT_NE(outcome.everything.find("rank 0 does not reach rank 1 yet, tried: eth0 10.0.0.1 -> 10.0.0.2:"),
            std::string::npos)
      << outcome.everything;
  const Event failure = failureOf(outcome.events, 0);
  EXPECT_EQ(failure.code, kTimeout) << outcome.everything;
  EXPECT_NE(failure.text.find("did not complete within 12000 ms (HORING_TIMEOUT_MS): rank 0: connects to "
                              "rank 1 (socket eth0 10.0.0.1 -> 10.0.0.2:"),
            std::string::npos)
      << failure.text;
  EXPECT_NE(failure.text.find(": no answer (attempt "), std::string::npos) << failure.text;
}

// From the log: how many milliseconds the peer was silent on a path before it was dropped; -1: not logged.
long silenceOf(const std::string& log) {
  const std::string words = "has not answered for ";
  const size_t at = log.find(words);
  return at == std::string::npos ? -1 : std::atol(log.c_str() + at + words.size());
}

// For the shell: waits until both ranks are before their late round.
std::string onceBothWait(const std::string& cut) {
  return "for i in $(seq 600); do [ -e " + cut + ".0 ] && [ -e " + cut + ".1 ] && break; sleep 0.1; done; ";
}

// Dropped long before a machine that answers on no path would be considered dead.
TEST(InterfaceThatLeadsNowhere, ARailThatDiesGoesOverToTheOther) {
  HORING_NEEDS_NAMESPACES();
  const TemporaryFolder folder;
  const std::string cut = folder.path() / "cut";
  for (const char* node : {"$A", "$B"}) {
    const JobOutcome outcome =
        runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    wire eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1)",
               .root = "10.0.0.1:4711",
               .words = "rounds=1000 count=1000 late_round=500 call_when=" + cut,
               .meanwhile = onceBothWait(cut) + node + " ip link set eth1 down; touch " + cut});
    for (const char* end : {"", ".0", ".1"}) std::filesystem::remove(cut + end);
    for (const int rank : {0, 1})
      EXPECT_EQ(eventOf(outcome.events, "collective", rank).code, kSuccess) << outcome.everything;
    EXPECT_NE(outcome.everything.find("continues without the path eth1"), std::string::npos)
        << outcome.everything;
    EXPECT_GT(silenceOf(outcome.everything), 3'000) << outcome.everything;
    EXPECT_LT(silenceOf(outcome.everything), 8'500) << outcome.everything;
  }
}

// For long enough to lose the connections of both. One is back a second before the other, which is no reason to give that one up.
TEST(NetworkThatIsOut, CostsNoRailWhenBothWereOut) {
  HORING_NEEDS_NAMESPACES();
  const TemporaryFolder folder;
  const std::string cut = folder.path() / "cut";
  const JobOutcome outcome =
      runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    wire eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1
    wire eth2; a 10.0.2.1/24 eth2; b 10.0.2.2/24 eth2)",
             .root = "10.0.0.1:4711",
             .words = "rounds=1000 count=1000 late_round=500 call_when=" + cut,
             .environment = "HORING_SOCKET_IFNAME==eth1,eth2",
             .meanwhile = onceBothWait(cut) + "$A ip link set eth1 down; $A ip link set eth2 down; touch " +
                          cut + "; sleep 10.5; $A ip link set eth1 up; sleep 1; $A ip link set eth2 up"});
  for (const int rank : {0, 1})
    EXPECT_EQ(eventOf(outcome.events, "collective", rank).code, kSuccess) << outcome.everything;
  EXPECT_NE(outcome.everything.find("lost a connection"), std::string::npos) << outcome.everything;
  EXPECT_EQ(outcome.everything.find("continues without the path"), std::string::npos) << outcome.everything;
}

// Longer than the time after which ranks are told that they wait in a circle. The rendezvous is reached by another network.
TEST(NetworkThatIsOut, IsNotTakenForACircleOfRanks) {
  HORING_NEEDS_NAMESPACES();
  const TemporaryFolder folder;
  const std::string cut = folder.path() / "cut";
  const JobOutcome outcome =
      runOn({.setup = R"(wire eth0; a 10.0.0.1/24 eth0; b 10.0.0.2/24 eth0
    wire eth1; a 10.0.1.1/24 eth1; b 10.0.1.2/24 eth1)",
             .root = "10.0.0.1:4711",
             .words = "collective=exchange count=100 rounds=2 late_round=1 call_when=" + cut,
             .environment = "HORING_SOCKET_IFNAME==eth1",
             .meanwhile = onceBothWait(cut) + "$A ip link set eth1 down; touch " + cut +
                          "; sleep 14.5; $A ip link set eth1 up"});
  for (const int rank : {0, 1})
    EXPECT_EQ(eventOf(outcome.events, "collective", rank).code, kSuccess) << outcome.everything;
  EXPECT_NE(outcome.everything.find("lost a connection"), std::string::npos) << outcome.everything;
}

// What node 1 sends by its second rail is a quarter as fast.
TEST(Rails, OfDifferentSpeedsCarryBytesInProportion) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string report = folder.path() / "bytes.json";
  const std::string slower =
      "[ $HORING_RUN_NODE = 0 ] || tc class change dev r1 parent 1: classid 1:1 htb rate 50mbit burst 48000b "
      "ceil 53mbit cburst 8977b quantum 60000; exec \"$0\" \"$@\"";
  const JobOutcome outcome =
      runJob({.ranks = 2,
              .run = {"--nodes", "2", "--rails", "2", "--rate", "200", "--report-bytes", report},
              .words = {"rounds=12", "count=1000000", "HORING_CALIBRATE=0"},
              .before = {"sh", "-c", slower}});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  std::map<std::string, double> sent;
  const auto bytes = nlohmann::json::parse(std::ifstream(report));
  for (const auto& interface : bytes.at("interfaces"))
    if (interface.at("node") == 1) sent[interface.at("interface")] = interface.at("sent_bytes").at("during");
  EXPECT_GT(sent["r0"], 2 * sent["r1"]);
  EXPECT_GT(sent["r1"], sent["r0"] / 8);
}

}  // namespace
}  // namespace horing::test
