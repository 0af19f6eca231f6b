// The verbs transport under the contract, on whatever RDMA devices this machine has; ./tools/dev test --rdma makes some.
#include <algorithm>
#include <cstdio>

#include "contract.h"
#include "gtest/gtest.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_devices.h"

namespace horing::testing {
namespace {

// Ranks take one device each, by turns of two, which have a wire between them; or all of them.
enum class Devices { kOneEach, kAll };

class VerbsFixture final : public TransportFixture {
 public:
  explicit VerbsFixture(Devices devices) : devices_(devices) {}

  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    const std::vector<std::string> names = rdmaDevices();
    std::vector<std::unique_ptr<Transport>> transports;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string mine = "=" + names[static_cast<size_t>(rank) % std::min(names.size(), size_t{2})];
      auto transport = makeVerbsOverLoopback(rank, key_, clock_, devices_ == Devices::kAll ? "" : mine);
      EXPECT_TRUE(transport.ok()) << transport.status().toString();
      if (transport.ok()) transports.push_back(transport.take());
    }
    return transports;
  }

 private:
  Devices devices_;
  SteadyClock clock_;
  Key key_ = Key::random();
};

}  // namespace

std::vector<TransportCase> verbsCases() {
  if (!rdmaDevices().empty())
    return {{"Verbs", [] { return std::make_unique<VerbsFixture>(Devices::kOneEach); }},
            {"VerbsAllDevices", [] { return std::make_unique<VerbsFixture>(Devices::kAll); }}};
  std::fputs("[  SKIPPED ] Verbs: no RDMA here: ./tools/dev test --rdma\n", stderr);
  return {};
}

}  // namespace horing::testing
