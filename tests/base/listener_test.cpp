#include "base/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

namespace horing {
namespace {

constexpr Address kLoopback{.bytes = {127, 0, 0, 1}};

Fd dial(const Endpoint& to) {
  Fd fd = openSocket(to.address.family).take();
  EXPECT_EQ(beginConnect(fd.get(), to), 0);
  pollfd item{.fd = fd.get(), .events = POLLOUT, .revents = 0};
  ::poll(&item, 1, 1000);
  return fd;
}

TEST(Endpoint, PrintsAllFamilies) {
  const Address v6{.family = Address::Family::kIpv6,
                   .bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  EXPECT_EQ((Endpoint{.address = {.bytes = {10, 0, 0, 2}}, .port = 4711}.text()), "10.0.0.2:4711");
  EXPECT_EQ((Endpoint{.address = v6, .port = 80}.text()), "[fd00::1]:80");
  EXPECT_EQ(randomLocalEndpoint().text(), "a socket of this machine");
  EXPECT_NE(randomLocalEndpoint(), randomLocalEndpoint());
}

TEST(Address, IsReadAsItIsPrinted) {
  for (const char* text : {"10.0.0.2", "fd00::1", "::1"}) EXPECT_EQ(Address::parse(text)->text(), text);
  for (const char* text : {"", "node-a", "10.0.0", "10.0.0.256", "10.0.0.2 ", "fd00::1%eth0", "[fd00::1]"})
    EXPECT_FALSE(Address::parse(text).has_value()) << text;
}

TEST(Endpoint, SurvivesTheKernelsForm) {
  Address mapped{.family = Address::Family::kIpv6,
                 .bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}};
  const Endpoint v4{.address = {.bytes = {10, 0, 0, 2}}, .port = 4711};
  EXPECT_EQ(toEndpoint(*toSockAddr(v4).get()), v4);
  EXPECT_EQ(toEndpoint(*toSockAddr({mapped, 4711}).get()), v4);
  mapped.bytes[0] = 0x20;
  EXPECT_EQ(toEndpoint(*toSockAddr({mapped, 4711}).get()), (Endpoint{mapped, 4711}));
}

TEST(Listener, GivesWhoWaitsAndSaysWhenNobodyDoes) {
  const Listener listener = listenOn(&kLoopback, 0).take();
  EXPECT_EQ(acceptNext(listener.fd).outcome, Accepted::Outcome::kNone);
  const Fd caller = dial({kLoopback, listener.port});
  const Accepted accepted = acceptNext(listener.fd);
  ASSERT_EQ(accepted.outcome, Accepted::Outcome::kOne);
  EXPECT_EQ(accepted.from, ownEndpoint(caller.get()));
  EXPECT_EQ(peerEndpoint(caller.get()), (Endpoint{kLoopback, listener.port}));
}

TEST(Listener, TellsThatItWasDestroyed) {
  const Listener listener = listenOn(&kLoopback, 0).take();
  ::shutdown(listener.fd.get(), SHUT_RDWR);
  EXPECT_EQ(acceptNext(listener.fd).outcome, Accepted::Outcome::kDestroyed);
}

TEST(Listener, LacksDescriptorsOnlyWhenSomebodyWaits) {
  const Listener listener = listenOn(&kLoopback, 0).take();
  Fd caller = openSocket(Address::Family::kIpv4).take();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = Fd(::dup(STDERR_FILENO)).get();  // free again, and all below it are taken
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Accepted nobody = acceptNext(listener.fd);
  EXPECT_EQ(beginConnect(caller.get(), {kLoopback, listener.port}), 0);
  const Accepted somebody = acceptNext(listener.fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(nobody.outcome, Accepted::Outcome::kNone);
  EXPECT_EQ(somebody.outcome, Accepted::Outcome::kLacking);
  EXPECT_EQ(somebody.error, EMFILE);
  EXPECT_EQ(acceptNext(listener.fd).outcome, Accepted::Outcome::kOne);
}

TEST(Listener, IsAtALocalNameOnce) {
  const Endpoint local = randomLocalEndpoint();
  const Listener listener = listenOn(&local.address, local.port).take();
  EXPECT_FALSE(listenOn(&local.address, local.port).ok());
  const Fd caller = dial(local);
  EXPECT_EQ(acceptNext(listener.fd).outcome, Accepted::Outcome::kOne);
}

TEST(Listener, APortThatIsReservedIsNobodyElses) {
  const Listener reserved = reservePort(nullptr, {}).take();
  const auto refused = listenOn(nullptr, reserved.port);
  EXPECT_EQ(refused.status().code(), Code::kSystemError);
  EXPECT_NE(refused.status().message().find("cannot listen on"), std::string::npos);
}

TEST(Listener, GivesEachPortOfARangeOnce) {
  const PortRange range{23'450, 23'459};
  std::vector<Listener> listening;
  std::set<uint16_t> ports;
  for (int i = 0; i < 10; ++i) {
    Result<Listener> one = listenOn(nullptr, range);
    if (!one.ok()) break;  // another process has one of them
    EXPECT_TRUE(one.value().port >= range.first && one.value().port <= range.last) << one.value().port;
    EXPECT_TRUE(ports.insert(one.value().port).second) << one.value().port;
    listening.push_back(one.take());
  }
  EXPECT_GE(ports.size(), 5u);
  const auto none = listenOn(nullptr, range);
  EXPECT_EQ(none.status().code(), Code::kSystemError);
  EXPECT_NE(none.status().message().find("HORING_PORTS=23450-23459"), std::string::npos)
      << none.status().message();
}

}  // namespace
}  // namespace horing
