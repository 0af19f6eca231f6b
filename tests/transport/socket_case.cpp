// The socket transport under the contract: both families, one and several streams.
#include "contract.h"
#include "gtest/gtest.h"
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
                                            .clock = &clock_});
      EXPECT_TRUE(transport.ok()) << transport.status().toString();
      if (transport.ok()) transports.push_back(transport.take());
    }
    return transports;
  }

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

std::vector<TransportCase> socketCases() {
  return {socketCase("SocketIpv4", "ipv4", 1), socketCase("SocketIpv4ThreeStreams", "ipv4", 3),
          socketCase("SocketIpv6", "ipv6", 1), socketCase("SocketIpv6ThreeStreams", "ipv6", 3)};
}

}  // namespace horing::testing
