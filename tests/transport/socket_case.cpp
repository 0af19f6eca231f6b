// The socket transport under the contract: both families, one and several streams.
#include <cstdio>

#include "../break_connections.h"
#include "../sanitizer.h"
#include "contract.h"
#include "gtest/gtest.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/socket_transport.h"

namespace horing::testing {
namespace {

class SocketFixture final : public TransportFixture {
 public:
  SocketFixture(const char* family, int streams) : family_(family), streams_(streams) {}

  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    std::vector<std::unique_ptr<Transport>> transports;
    for (int rank = 0; rank < ranks; ++rank) {
      auto transport = makeSocketTransport({.rank = rank,
                                            .key = key_,
                                            .interfaces = "=lo",
                                            .family = family_,
                                            .streams = streams_,
                                            .clock = &clock_,
                                            .log = Log(LogLevel::kNone)});
      EXPECT_TRUE(transport.ok()) << transport.status().toString();
      if (transport.ok()) transports.push_back(transport.take());
    }
    return transports;
  }
  int breakConnections(const std::function<bool()>& chosen) override {
    return horing::testing::breakConnections(chosen);
  }
  bool canBreak() const override { return true; }

 private:
  const char* family_;
  int streams_;
  SteadyClock clock_;
  Key key_ = Key::random();
};

TransportCase socketCase(const char* name, const char* family, int streams) {
  return {name, [=] { return std::make_unique<SocketFixture>(family, streams); }};
}

}  // namespace

// Containers often have no IPv6, not even on lo: then its cases are skipped with a message. Under a sanitizer each family and each
// number of streams comes once.
std::vector<TransportCase> socketCases() {
  std::vector<TransportCase> cases = {socketCase("SocketIpv4", "ipv4", 1)};
  const Result<std::vector<tcp::Interface>> all = tcp::listInterfaces();
  const bool has_ipv6 = all.ok() && tcp::chooseInterfaces(all.value(), "=lo", "ipv6").ok();
  if (!has_ipv6) std::fputs("[  SKIPPED ] SocketIpv6: this machine has no IPv6 on lo\n", stderr);
  if (!has_ipv6 || !test::kSanitizer) cases.push_back(socketCase("SocketIpv4ThreeStreams", "ipv4", 3));
  if (has_ipv6 && !test::kSanitizer) cases.push_back(socketCase("SocketIpv6", "ipv6", 1));
  if (has_ipv6) cases.push_back(socketCase("SocketIpv6ThreeStreams", "ipv6", 3));
  return cases;
}

}  // namespace horing::testing
