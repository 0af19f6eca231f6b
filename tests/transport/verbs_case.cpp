// The verbs transport under the contract: on devices in memory, and on whatever RDMA devices this machine has; ./tools/dev test --rdma
// makes some.
#include <algorithm>
#include <cstdio>

#include "contract.h"
#include "gtest/gtest.h"
#include "transport/loopback/loopback_transport.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_devices.h"
#include "verbs_fake.h"

namespace horing::testing {
namespace {

// Ranks take one device each, alternating between two that are connected; or all devices.
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

// All ranks on one machine with two ports, so that every link has two paths.
class VerbsFakeFixture final : public TransportFixture {
 public:
  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    auto hub = LoopbackHub::create(ranks);
    EXPECT_TRUE(hub.ok()) << hub.status().toString();
    std::vector<std::unique_ptr<Transport>> transports;
    for (int rank = 0; hub.ok() && rank < ranks; ++rank) {
      auto control = makeLoopbackTransport(hub.value(), rank);
      EXPECT_TRUE(control.ok()) << control.status().toString();
      if (!control.ok()) break;
      auto made = makeVerbsTransport(
          {.rank = rank, .library = &verbs_.library(), .clock = &clock_, .log = Log(LogLevel::kNone)},
          control.take());
      EXPECT_TRUE(made.ok()) << made.status().toString();
      if (made.ok()) transports.push_back(made.take());
    }
    return transports;
  }

 private:
  SteadyClock clock_;
  FakeVerbs verbs_{{{.name = "fake0", .wire = 0, .gid = fakeGid(0, 1)},
                    {.name = "fake1", .wire = 1, .gid = fakeGid(1, 1)}}};
};

}  // namespace

std::vector<TransportCase> verbsCases() {
  std::vector<TransportCase> cases = {{"VerbsFake", [] { return std::make_unique<VerbsFakeFixture>(); }}};
  if (rdmaDevices().empty()) {
    std::fputs("[  SKIPPED ] Verbs: no RDMA here: ./tools/dev test --rdma\n", stderr);
  } else {
    cases.push_back({"Verbs", [] { return std::make_unique<VerbsFixture>(Devices::kOneEach); }});
    cases.push_back({"VerbsAllDevices", [] { return std::make_unique<VerbsFixture>(Devices::kAll); }});
  }
  return cases;
}

}  // namespace horing::testing
