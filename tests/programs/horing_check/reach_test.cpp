// Who is left out where some nodes do not reach others.
#include "horing_check/reach.h"

#include <gtest/gtest.h>

#include "../../sanitizer.h"
#include "base/listener.h"
#include "horing_check/node_port.h"

namespace horing::check {
namespace {

TEST(Reach, LeavesOutFewSoThatAllOthersReachEachOther) {
  EXPECT_EQ(leftOut({}), std::vector<int>{});
  EXPECT_EQ(leftOut({{1, 3}}), std::vector<int>{3}) << "of two that are as bad, the last";
  EXPECT_EQ(leftOut({{0, 3}, {1, 3}, {2, 3}}), std::vector<int>{3});
  EXPECT_EQ(leftOut({{1, 2}, {1, 3}, {1, 4}}), std::vector<int>{1});
  EXPECT_EQ(leftOut({{0, 1}, {0, 2}}), (std::vector<int>{1, 2})) << "never node 0, which reports";
  EXPECT_EQ(leftOut({{1, 2}, {3, 4}}), (std::vector<int>{2, 4}));
}

constexpr std::chrono::milliseconds kWithin{test::kShortDeadlineMs};

Doors doorsAt(const Address& address, uint16_t port) {
  Doors doors{};
  doors[0] = {address, port};
  return doors;
}

TEST(Reach, TellsWhoseDoorsOpen) {
  const Address here = *Address::parse("127.0.0.1");
  const Result<Listener> open = listenOn(&here, 0), closed = reservePort(&here, {});
  ASSERT_TRUE(open.ok() && closed.ok());
  Doors second_opens = doorsAt(here, closed.value().port);
  second_opens[1] = {here, open.value().port};
  const std::vector<bool> reached = connectToAll(
      {doorsAt(here, open.value().port), doorsAt(here, closed.value().port), Doors{}, second_opens}, kWithin);
  EXPECT_EQ(reached, (std::vector<bool>{true, false, true, true}))
      << "open, closed, none that could tell, the second open";
}

TEST(Reach, HasADoorWhereHoringListens) {
  Result<NodePort> port = openNodePort({});
  ASSERT_TRUE(port.ok()) << port.status().toString();
  ASSERT_FALSE(port.value().addresses.empty());
  EXPECT_EQ(connectToAll({doorsOf(port.value())}, kWithin), std::vector<bool>{true});
}

TEST(Reach, HasADoorAtEachAddressButThoseThatNeedAnInterface) {
  NodePort port;
  port.listener.port = 4711;
  for (const char* text : {"10.0.0.1", "fe80::1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"})
    port.addresses.push_back(*Address::parse(text));
  const Doors doors = doorsOf(port);
  EXPECT_EQ(doors[1].text(), "10.0.0.2:4711");
  EXPECT_EQ(doors[4].text(), "10.0.0.5:4711");
  EXPECT_EQ(doors[5].port, 0);
  port.addresses.resize(17, *Address::parse("10.0.0.6"));
  EXPECT_NE(doorsOf(port)[15].port, 0) << "16, and one that needs an interface";
  port.addresses.resize(18, *Address::parse("10.0.0.7"));
  EXPECT_EQ(doorsOf(port)[0].port, 0) << "too many: nobody can tell";
}

TEST(Reach, LooksWhereTheRailsAre) {
  const Result<NodePort> port = openNodePort({"HORING_SOCKET_IFNAME", "=lo", {}});
  ASSERT_TRUE(port.ok()) << port.status().toString();
  for (const Address& address : port.value().addresses) EXPECT_TRUE(address.isLoopback()) << address.text();
}

}  // namespace
}  // namespace horing::check
