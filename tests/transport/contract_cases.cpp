#include <algorithm>

#include "contract.h"
#include "gtest/gtest.h"
#include "shm_folder.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"

namespace horing::testing {
namespace {

class LoopbackFixture final : public TransportFixture {
 public:
  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    std::vector<std::unique_ptr<Transport>> transports;
    auto hub = LoopbackHub::create(ranks);
    EXPECT_TRUE(hub.ok()) << hub.status().toString();
    for (int rank = 0; hub.ok() && rank < ranks; ++rank) {
      auto transport = makeLoopbackTransport(hub.value(), rank);
      EXPECT_TRUE(transport.ok()) << transport.status().toString();
      if (transport.ok()) transports.push_back(transport.take());
    }
    return transports;
  }
};

class ShmFixture final : public TransportFixture {
 public:
  ~ShmFixture() override { EXPECT_EQ(folder_.entries(), std::vector<std::string>{}) << "left behind"; }
  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    std::vector<std::unique_ptr<Transport>> transports;
    for (int rank = 0; rank < ranks; ++rank) {
      auto transport = makeShmTransport(folder_.options(rank));
      EXPECT_TRUE(transport.ok()) << transport.status().toString();
      if (transport.ok()) transports.push_back(transport.take());
    }
    return transports;
  }

 private:
  ShmFolder folder_;
};

class FaultyFixture final : public TransportFixture {
 public:
  explicit FaultyFixture(std::unique_ptr<TransportFixture> inner) : inner_(std::move(inner)) {}
  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    std::vector<std::unique_ptr<Transport>> transports = inner_->make(ranks);
    const FaultPlan plan{
        .seed = 42, .max_delay_polls = 5, .max_credit_delay_polls = 7, .max_landing_delay_polls = 3};
    for (size_t rank = 0; rank < transports.size(); ++rank) {
      transports[rank] = makeFaultyTransport(std::move(transports[rank]), static_cast<int>(rank), plan);
    }
    return transports;
  }
  bool keepsMessagesOfDeparted() const override { return inner_->keepsMessagesOfDeparted(); }
  int breakConnections(const std::function<bool()>& chosen) override {
    return inner_->breakConnections(chosen);
  }
  bool canBreak() const override { return inner_->canBreak(); }

 private:
  std::unique_ptr<TransportFixture> inner_;
};

template <typename Fixture>
TransportCase caseOf(const char* name) {
  return {name, [] { return std::make_unique<Fixture>(); }};
}

TransportCase faulty(const char* name, const TransportCase& inner) {
  return {name, [=] { return std::make_unique<FaultyFixture>(inner.make_fixture()); }};
}

}  // namespace

// A transport of another file adds its own line; see contract.h.
std::vector<TransportCase> contractCases() {
  std::vector<TransportCase> cases = {caseOf<LoopbackFixture>("Loopback"), caseOf<ShmFixture>("Shm"),
                                      faulty("FaultyOverLoopback", caseOf<LoopbackFixture>("Loopback"))};
  // What these can do more must pass through the decorator, too.
  cases.push_back(faulty("FaultyOverSocket", socketCases().front()));
  cases.push_back(faulty("FaultyOverVerbs", verbsCases().front()));
  for (TransportCase& more : socketCases()) cases.push_back(std::move(more));
  for (TransportCase& more : verbsCases()) cases.push_back(std::move(more));
  return cases;
}

}  // namespace horing::testing
