// The choice of interfaces, the published addresses, and how two ranks pair them.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "base/port_range.h"
#include "gtest/gtest.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/published.h"
#include "transport/transport.h"

namespace horing::tcp {
namespace {

Interface v4(const char* name, std::array<uint8_t, 4> address, int bits = 24) {
  Interface out{
      .name = name, .address = {}, .prefix_bits = static_cast<uint8_t>(bits), .loopback = address[0] == 127};
  for (size_t i = 0; i < 4; ++i) out.address.bytes[i] = address[i];
  return out;
}
Interface v6(const char* name, uint8_t network, uint8_t host) {
  Interface out{.name = name,
                .address = {.family = Address::Family::kIpv6, .bytes = {0xfd, network}},
                .prefix_bits = 64,
                .loopback = false};
  out.address.bytes[15] = host;
  return out;
}

const std::vector<Interface> kMachine = {
    v4("lo", {127, 0, 0, 1}, 8),   v4("eth0", {10, 0, 0, 2}),  v6("eth0", 0, 2),
    v4("eth1", {10, 0, 1, 2}),     v4("eth10", {10, 0, 2, 2}), v4("ib0", {10, 1, 0, 2}),
    v4("docker0", {172, 17, 0, 1})};

std::string chosen(std::string_view selection, std::string_view family = "any",
                   const std::vector<Interface>& all = kMachine) {
  const Result<std::vector<Interface>> out = chooseInterfaces(all, selection, family);
  if (!out.ok()) return "error";
  std::string text;
  for (const Interface& i : out.value())
    text += (text.empty() ? "" : " ") + i.name + (i.address.isV6() ? "/6" : "");
  return text;
}

TEST(Interfaces, DefaultIsAllButLoopbackAndDocker) {
  EXPECT_EQ(chosen(""), "eth0 eth1 eth10 ib0 eth0/6");
}

TEST(Interfaces, LoopbackIsUsedWhenThereIsNothingElseOrWhenNamed) {
  EXPECT_EQ(chosen("", "any", {kMachine[0]}), "lo");
  EXPECT_EQ(chosen("", "any", {kMachine[0], kMachine[6]}), "lo");
  EXPECT_EQ(chosen("lo"), "lo");
  EXPECT_EQ(chosen("lo,ib"), "ib0 lo");
  EXPECT_EQ(chosen("^docker"), "eth0 eth1 eth10 ib0 eth0/6");
  EXPECT_EQ(chosen("^eth,ib,docker"), "lo");
}

TEST(Interfaces, SelectsByPrefixExactNameAndException) {
  EXPECT_EQ(chosen("eth1"), "eth1 eth10");
  EXPECT_EQ(chosen("=eth1"), "eth1");
  EXPECT_EQ(chosen("=eth1,ib0"), "eth1 ib0");
  EXPECT_EQ(chosen("ib,eth0"), "eth0 ib0 eth0/6");
  EXPECT_EQ(chosen("^eth1,docker"), "eth0 ib0 eth0/6");
  EXPECT_EQ(chosen("^=eth1"), "eth0 eth10 ib0 docker0 eth0/6");
  EXPECT_EQ(chosen("docker"), "docker0");
}

TEST(Interfaces, SelectsByFamily) {
  EXPECT_EQ(chosen("", "ipv4"), "eth0 eth1 eth10 ib0");
  EXPECT_EQ(chosen("", "ipv6"), "eth0/6");
  EXPECT_EQ(chosen("ib", "ipv6"), "error");
}

TEST(Interfaces, FurtherAddressesComeAfterTheFirst) {
  EXPECT_EQ(
      chosen("", "any",
             {v4("eth0", {10, 0, 0, 2}), v4("eth0", {10, 0, 0, 3}), v6("eth0", 0, 1), v6("eth0", 0, 2)}),
      "eth0 eth0/6 eth0 eth0/6");
}

TEST(Interfaces, UseAnAddressOfTheLoopbackInterfaceThatOthersReach) {
  Interface routed = v4("lo", {10, 255, 0, 1}, 32);
  routed.on_loopback = true;
  EXPECT_EQ(chosen("", "any", {kMachine[0], routed}), "lo");
  EXPECT_EQ(chooseInterfaces({kMachine[0], routed}, "", "any").value()[0].address, routed.address);
  EXPECT_EQ(chosen("", "any", {kMachine[0], routed, kMachine[1]}), "eth0") << "not where there is another";
  const auto named = chooseInterfaces({kMachine[0], routed, kMachine[1]}, "lo", "any").take();
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].address, routed.address) << "the likeliest first";
}

TEST(Interfaces, UseLinkLocalAddressesOfNamedInterfacesWithoutOthers) {
  Interface v4_local = v4("eth7", {169, 254, 3, 4}, 16);
  Interface v6_local{.name = "eth8", .address = {.family = Address::Family::kIpv6, .bytes = {0xfe, 0x80}}};
  Interface besides = v6_local;
  besides.name = "eth0";
  const std::vector<Interface> all = {kMachine[0], kMachine[1], v4_local, v6_local, besides};
  EXPECT_EQ(chosen("", "any", all), "eth0");
  EXPECT_EQ(chosen("eth7,eth8", "any", all), "eth7 eth8/6");
  EXPECT_EQ(chosen("eth0", "any", all), "eth0");
  EXPECT_EQ(chosen("eth0", "ipv6", all), "eth0/6");
  EXPECT_EQ(chosen("", "any", {kMachine[0], v4_local}), "lo");
}

TEST(Interfaces, ComeInTheOrderOfWhatIsExpectedOfThem) {
  std::vector<Interface> all = {kMachine[3], kMachine[4], kMachine[5]};
  all[0].private_bridge = true;
  all[1].has_carrier = false;
  EXPECT_EQ(chosen("", "any", all), "ib0 eth1");
  EXPECT_EQ(chosen("eth,ib", "any", all), "ib0 eth1 eth10") << "what is named is used";
  EXPECT_EQ(chosen("", "any", {all[1]}), "eth10") << "there is nothing else";
}

TEST(Interfaces, AnErrorListsAllThatIsUp) {
  std::vector<Interface> all = {v4("eth7", {169, 254, 3, 4}, 16), kMachine[1]};
  all[1].has_carrier = false;
  const auto out = chooseInterfaces(all, "wlan", "any");
  EXPECT_NE(out.status().message().find("eth7 (169.254.3.4, link-local), eth0 (10.0.0.2, no carrier)"),
            std::string::npos)
      << out.status().message();
}

TEST(Interfaces, RefusesBrokenSelections) {
  for (const char* bad : {"^", "=", "^=", ",", "eth0,", ",eth0", "eth0,,ib", "eth0,^ib", "eth0,=ib", "a b",
                          "a-name-that-is-longer-than-any"}) {
    const Result<std::vector<Interface>> out = chooseInterfaces(kMachine, bad, "any");
    ASSERT_FALSE(out.ok()) << bad;
    EXPECT_EQ(out.status().code(), Code::kInvalidArgument);
    EXPECT_NE(out.status().message().find(std::string("HORING_SOCKET_IFNAME=") + bad), std::string::npos)
        << out.status().message();
  }
}

TEST(Interfaces, AnUnmatchedSelectionSaysWhatThereIs) {
  const Result<std::vector<Interface>> out = chooseInterfaces(kMachine, "wlan", "any");
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.status().message().find("wlan"), std::string::npos);
  EXPECT_NE(out.status().message().find("ib0 (10.1.0.2)"), std::string::npos) << out.status().message();
}

std::string nearOnes(std::vector<Interface> interfaces, const std::map<std::string, int>& distances,
                     const std::string& net = "/nowhere") {
  markNear(interfaces, distances, net);
  std::string text;
  for (const Interface& i : interfaces) text += i.near ? (text.empty() ? "" : " ") + i.name : "";
  return text;
}

TEST(Interfaces, AreNearWhereNoneIsNearer) {
  const std::vector<Interface> some = {kMachine[1], kMachine[3], kMachine[5]};
  EXPECT_EQ(nearOnes(some, {}), "eth0 eth1 ib0");
  EXPECT_EQ(nearOnes(some, {{"eth0", 4}, {"eth1", 2}, {"ib0", 4}}), "eth1");
  EXPECT_EQ(nearOnes(some, {{"eth0", 4}, {"eth1", 4}, {"ib0", 6}}), "eth0 eth1");
  EXPECT_EQ(nearOnes(some, {{"eth0", 4}, {"ib0", 2}}), "eth1 ib0") << "nobody knows where eth1 is";
  EXPECT_EQ(nearOnes(some, {{"eth7", 1}, {"ib0", 2}, {"eth0", 4}}), "eth1 ib0") << "one that is not used";
  EXPECT_EQ(nearOnes({}, {{"eth0", 1}}), "");
}

TEST(Interfaces, AreWhereTheirRdmaDevicesAre) {
  const test::TemporaryFolder folder;
  const std::string net = folder.path();
  std::filesystem::create_directories(net + "/eth0/device/infiniband/mlx5_0");
  std::filesystem::create_directories(net + "/ib0/device/infiniband/mlx5_1");
  std::filesystem::create_directories(net + "/eth1/device");
  EXPECT_EQ(
      nearOnes({kMachine[1], kMachine[3], kMachine[5]}, {{"mlx5_0", 9}, {"mlx5_1", 2}, {"eth1", 2}}, net),
      "eth1 ib0");
}

TEST(Interfaces, ListsThisMachine) {
  const Result<std::vector<Interface>> all = listInterfaces();
  ASSERT_TRUE(all.ok()) << all.status().toString();
  for (const Interface& i : all.value()) {
    EXPECT_FALSE(i.name.empty());
    EXPECT_GT(i.prefix_bits, 0) << i.name;
    EXPECT_LE(i.prefix_bits, i.address.isV6() ? 128 : 32) << i.name;
  }
}

Published rankOn(uint64_t host, std::vector<Interface> interfaces) {
  Published out{
      .host = host, .instance = {}, .port = 4711, .streams = 2, .interfaces = std::move(interfaces)};
  out.instance[0] = static_cast<std::byte>(host);
  return out;
}

TEST(Published, SurvivesItsEncoding) {
  Published original = rankOn(7, {v4("eth0", {10, 0, 0, 2}), v6("ib0", 3, 9)});
  original.interfaces[1].near = false;
  const std::vector<std::byte> bytes = original.encode();
  EXPECT_LE(bytes.size(), kMaxAddressBytes);
  const Result<Published> copy = Published::decode(bytes);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy.value().host, 7u);
  EXPECT_EQ(copy.value().instance, original.instance);
  EXPECT_EQ(copy.value().port, 4711);
  EXPECT_EQ(copy.value().streams, 2);
  ASSERT_EQ(copy.value().interfaces.size(), 2u);
  EXPECT_EQ(copy.value().interfaces[1].name, "ib0");
  EXPECT_EQ(copy.value().interfaces[1].address, original.interfaces[1].address);
  EXPECT_EQ(copy.value().interfaces[1].prefix_bits, 64);
  EXPECT_TRUE(copy.value().interfaces[0].near);
  EXPECT_FALSE(copy.value().interfaces[1].near);
}

TEST(Published, HoldsAsManyInterfacesAsFit) {
  std::vector<Interface> many;
  for (uint8_t i = 0; i < kMaxInterfaces + 5; ++i)
    many.push_back(v4(("eth" + std::to_string(i)).c_str(), {10, 0, i, 1}));
  const std::vector<std::byte> bytes = rankOn(1, many).encode();
  EXPECT_LE(bytes.size(), kMaxAddressBytes);
  const Result<Published> copy = Published::decode(bytes);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy.value().interfaces.size(), kMaxInterfaces);
}

using Pairs = std::vector<InterfacePair>;

TEST(Pairs, UseEveryCommonSubnetOnce) {
  const Published a =
      rankOn(1, {v4("eth0", {10, 0, 0, 1}), v4("eth1", {10, 0, 1, 1}), v4("mgmt", {192, 168, 0, 1})});
  const Published b =
      rankOn(2, {v4("eth1", {10, 0, 1, 2}), v4("eth0", {10, 0, 0, 2}), v4("other", {192, 168, 9, 1})});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{0, 1}, {1, 0}}));
}

// For a machine with four interfaces on different subnets, of which these are near.
Published railsOf(uint64_t host, std::set<uint8_t> near) {
  Published out = rankOn(host, {});
  for (uint8_t i = 0; i < 4; ++i) {
    out.interfaces.push_back(v4(("eth" + std::to_string(i)).c_str(), {10, 0, i, static_cast<uint8_t>(host)}));
    out.interfaces.back().near = near.contains(i);
  }
  return out;
}

TEST(Pairs, AreThoseWithTheMostEndsNearToTheirRanks) {
  const auto pairs = [](std::set<uint8_t> lower, std::set<uint8_t> higher) {
    return pairInterfaces(railsOf(1, std::move(lower)), railsOf(2, std::move(higher)));
  };
  EXPECT_EQ(pairs({1}, {1}), (Pairs{{1, 1}}));
  EXPECT_EQ(pairs({0, 1}, {1, 2}), (Pairs{{1, 1}}));
  EXPECT_EQ(pairs({2, 3}, {2, 3}), (Pairs{{2, 2}, {3, 3}}));
  EXPECT_EQ(pairs({2}, {0, 1, 2, 3}), (Pairs{{2, 2}})) << "the other may run anywhere";
  EXPECT_EQ(pairs({0}, {3}), (Pairs{{0, 0}, {3, 3}})) << "each is near to one of them";
  EXPECT_EQ(pairs({}, {}), (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
}

TEST(Pairs, OnOneSubnetLeaveByTheNearInterfaceOfEach) {
  Published a = rankOn(1, {v4("eth0", {10, 0, 0, 1}), v4("eth1", {10, 0, 0, 2})});
  Published b = rankOn(2, {v4("eth0", {10, 0, 0, 3}), v4("eth1", {10, 0, 0, 4})});
  a.interfaces[0].near = false;
  b.interfaces[1].near = false;
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{1, 0}}));
}

TEST(Pairs, ReachAPeerWhoseNearInterfaceIsElsewhere) {
  Published a = rankOn(1, {v4("eth0", {10, 0, 0, 1}), v4("ib0", {10, 1, 0, 1})});
  Published b = rankOn(2, {v4("eth0", {10, 0, 0, 2}), v4("ib1", {10, 2, 0, 2})});
  a.interfaces[0].near = b.interfaces[0].near = false;
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{0, 0}})) << "a common subnet before a router";
}

TEST(Pairs, DoNotUseOneInterfaceForBothFamilies) {
  const Published a = rankOn(1, {v4("eth0", {10, 0, 0, 1}), v6("eth0", 0, 1)});
  const Published b = rankOn(2, {v4("eth0", {10, 0, 0, 2}), v6("eth0", 0, 2)});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{0, 0}}));
  const Published c = rankOn(3, {v6("eth0", 0, 3)});
  EXPECT_EQ(pairInterfaces(a, c), (Pairs{{1, 0}}));
}

TEST(Pairs, JudgeSubnetsByTheirPrefix) {
  const Published a = rankOn(1, {v4("a", {10, 0, 4, 1}, 22), v4("b", {10, 9, 0, 1}, 24)});
  const Published b = rankOn(2, {v4("b", {10, 9, 0, 2}, 24), v4("a", {10, 0, 7, 1}, 22)});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairs, RouteBetweenSubnetsWhenNoneIsCommon) {
  const Published a = rankOn(1, {v4("eth0", {10, 0, 0, 1}), v4("eth1", {10, 0, 1, 1})});
  const Published b =
      rankOn(2, {v4("eth0", {10, 5, 0, 1}), v4("eth1", {10, 5, 1, 1}), v4("eth2", {10, 5, 2, 1})});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_TRUE(pairInterfaces(a, rankOn(3, {v6("eth0", 0, 1)})).empty());
}

TEST(Pairs, LeaveOutAnAddressThatBothHave) {
  const Interface bridge = v4("br-1", {172, 18, 0, 1}, 16);
  const Published a = rankOn(1, {bridge, v4("eth0", {10, 0, 0, 1})});
  const Published b = rankOn(2, {bridge, v4("eth0", {10, 5, 0, 1})});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{1, 1}}));
  EXPECT_TRUE(pairInterfaces(rankOn(1, {v4("eth0", {10, 0, 0, 1}), bridge}), rankOn(2, {bridge})).empty())
      << "not by way of another interface either";
}

TEST(Pairs, JoinLinkLocalAddressesToEachOtherOnly) {
  const Interface local = v4("eth0", {169, 254, 0, 1}, 16), peer = v4("eth0", {169, 254, 0, 2}, 16);
  EXPECT_EQ(pairInterfaces(rankOn(1, {local}), rankOn(2, {peer})), (Pairs{{0, 0}}));
  EXPECT_TRUE(pairInterfaces(rankOn(1, {local}), rankOn(2, {v4("eth0", {10, 0, 0, 1})})).empty());
}

TEST(Pairs, UseTheSecondAddressOfAnInterface) {
  const Published a = rankOn(1, {v4("eth0", {10, 0, 0, 1}), v4("eth0", {10, 9, 0, 1})});
  const Published b = rankOn(2, {v4("eth0", {10, 5, 0, 2}), v4("eth0", {10, 9, 0, 2})});
  EXPECT_EQ(pairInterfaces(a, b), (Pairs{{1, 1}}));
}

TEST(Pairs, LoopbackAndPrivateBridgesOnlyReachTheirOwnHost) {
  const Interface lo = v4("lo", {127, 0, 0, 1}, 8);
  const Interface bridge = v4("docker0", {172, 17, 0, 1}, 16);
  EXPECT_EQ(pairInterfaces(rankOn(1, {lo}), rankOn(1, {lo})), (Pairs{{0, 0}}));
  EXPECT_TRUE(pairInterfaces(rankOn(1, {lo}), rankOn(2, {lo})).empty());
  EXPECT_EQ(pairInterfaces(rankOn(1, {bridge}), rankOn(1, {bridge})), (Pairs{{0, 0}}));
  EXPECT_TRUE(pairInterfaces(rankOn(1, {bridge}), rankOn(2, {bridge})).empty());
  EXPECT_TRUE(pairInterfaces(rankOn(1, {lo}), rankOn(1, {v4("eth0", {10, 0, 0, 1})})).empty());
}

TEST(PortRange, IsReadOrRefusedByName) {
  EXPECT_TRUE(parsePortRange("").value().isAny());
  const PortRange range = parsePortRange("30000-30999").value();
  EXPECT_EQ(range.first, 30000);
  EXPECT_EQ(range.last, 30999);
  EXPECT_EQ(parsePortRange("65535-65535").value().last, 65535);
  for (const char* bad :
       {"1", "-", "5-", "-5", "0-5", "6-5", "1-65536", "1-2-3", "1-2 ", "a-b", "70000-70001"}) {
    const auto refused = parsePortRange(bad);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << bad;
    EXPECT_NE(refused.status().message().find(std::string("HORING_PORTS=") + bad), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace horing::tcp
