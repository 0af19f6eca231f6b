// The simulation itself: the same seed gives the same run, faults are noticed, and the network keeps its contract.
#include "simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "algorithms/catalogue.h"
#include "exchanges.h"
#include "network.h"

namespace horing::simulated {
namespace {

Scenario ringOf(int32_t ranks) {
  Scenario scenario;
  scenario.shape = {1, ranks};
  for (int32_t rank = 0; rank < ranks; ++rank) scenario.rank_of_position.push_back(rank);
  scenario.plans = {{"ring", Collective::kAllReduce}};
  scenario.operations = {{.type = DataType::kInt32, .count = 1000}};
  scenario.settings = {.window = 2, .slot_bytes = 64};
  scenario.slots = 3;
  return scenario;
}

Outcome outcomeOf(const Scenario& scenario) {
  Expectation expectation;
  return Simulation(scenario, expectation).run();
}

TEST(Simulation, RepeatsItselfExactly) {
  Expectation expectation;
  std::set<uint64_t> fingerprints;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Scenario scenario = makeScenario(seed);
    const Outcome first = Simulation(scenario, expectation).run();
    const Outcome second = Simulation(scenario, expectation).run();
    EXPECT_EQ(first.fingerprint, second.fingerprint) << scenarioText(scenario);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    EXPECT_EQ(first.steps, second.steps);
    fingerprints.insert(first.fingerprint);
  }
  EXPECT_EQ(fingerprints.size(), 40u);
}

TEST(Simulation, SeesADeadlockAndSaysWhoWaitsForWhom) {
  Scenario scenario = ringOf(3);
  EXPECT_EQ(outcomeOf(scenario).failure, "");
  scenario.slots = 2;  // as many as the window: one too few
  const std::string failure = outcomeOf(scenario).failure;
  EXPECT_NE(failure.find("waits for ever"), std::string::npos) << failure;
  EXPECT_NE(failure.find("waits for rank 1 to take data"), std::string::npos) << failure;
}

TEST(Simulation, EndsOnEveryRankWhateverBreaks) {
  for (const Fault fault : {Fault::kCut, Fault::kDeath}) {
    Scenario scenario = ringOf(5);
    scenario.fault = fault;
    scenario.fault_permille = 300;
    const Outcome outcome = outcomeOf(scenario);
    EXPECT_EQ(outcome.failure, "") << faultName(fault);
    EXPECT_EQ(outcome.errors, 5) << faultName(fault);
  }
}

TEST(Simulation, GivesTheRightResultsThoughLinksBreakAgainAndAgain) {
  for (int permille = 0; permille < 1000; permille += 100) {
    Scenario scenario = ringOf(5);
    scenario.fault = Fault::kBreak;
    scenario.fault_permille = permille;
    const Outcome outcome = outcomeOf(scenario);
    EXPECT_EQ(outcome.failure, "") << permille;
    EXPECT_EQ(outcome.errors, 0) << permille;
  }
}

// Some algorithms receive dozens of messages from one peer before the first one of another, which waits for its landing meanwhile.
TEST(Simulation, EndsWhereSendersAwaitLandings) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (const auto collective : {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
      if (!algorithm.has(collective)) continue;
      Scenario scenario = ringOf(64);
      scenario.shape = {8, 8};
      scenario.plans = {{algorithm.name, collective}};
      scenario.operations.front().count = 100;
      scenario.landings = 8;
      scenario.settings.in_place_bytes = 1;
      EXPECT_EQ(outcomeOf(scenario).failure, "") << algorithm.name << ' ' << collectiveName(collective);
    }
}

TEST(Simulation, TellsOfADisagreement) {
  Scenario scenario = ringOf(4);
  scenario.fault = Fault::kDisagreement;
  const Outcome outcome = outcomeOf(scenario);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_GT(outcome.errors, 0);
}

TEST(Scenario, CoversWhatItShould) {
  std::set<Fault> faults;
  std::set<std::string> algorithms;
  std::set<Collective> collectives;
  int32_t most_ranks = 0;
  size_t operations = 0, uneven_with_other_sizes = 0;
  std::set<std::string> on_any_sizes;
  std::set<Fault> faults_on_any_sizes;
  size_t of_any_sizes = 0, of_any_sizes_and_rates = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Scenario scenario = makeScenario(seed);
    faults.insert(scenario.fault);
    for (const PlanChoice& plan : scenario.plans) {
      algorithms.insert(plan.algorithm);
      collectives.insert(plan.collective);
    }
    most_ranks = std::max(most_ranks, scenario.shape.ranks());
    if (scenario.shape.rails) {
      ++of_any_sizes;
      of_any_sizes_and_rates += static_cast<bool>(scenario.shape.shares);
      faults_on_any_sizes.insert(scenario.fault);
      for (const PlanChoice& plan : scenario.plans) on_any_sizes.insert(plan.algorithm);
    }
    operations += scenario.operations.size();
    for (size_t i = 1; i < scenario.operations.size(); ++i) {
      const OperationChoice &before = scenario.operations[i - 1], &now = scenario.operations[i];
      uneven_with_other_sizes += now.uneven && now.plan == before.plan && now.type == before.type &&
                                 now.count == before.count && now.block_seed != before.block_seed;
    }
  }
  EXPECT_GT(uneven_with_other_sizes, operations / 100);
  EXPECT_EQ(faults.size(), 5u);
  EXPECT_EQ(algorithms.size(), algorithmCatalogue().size());
  EXPECT_EQ(collectives.size(), static_cast<size_t>(kCollectives));
  EXPECT_GT(most_ranks, 250);
  EXPECT_GT(of_any_sizes, 200u);
  EXPECT_GT(of_any_sizes_and_rates, 100u);
  EXPECT_EQ(faults_on_any_sizes, faults);
  for (const Algorithm& algorithm : algorithmCatalogue())
    EXPECT_EQ(on_any_sizes.contains(algorithm.name), algorithm.any_sizes) << algorithm.name;
}

TEST(Exchanges, OfAnySeedEndWell) {
  int faults = 0, errors = 0;
  uint64_t messages = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Exchanges exchanges(seed);
    const Exchanges::Outcome outcome = exchanges.run();
    ASSERT_EQ(outcome.failure, "");
    faults += exchanges.fault() != Fault::kNone;
    errors += outcome.errors > 0;
    messages += outcome.messages;
  }
  EXPECT_GT(faults, 200);
  EXPECT_GT(errors, 100);
  EXPECT_GT(messages, 5'000u);
}

TEST(Exchanges, AreTheSameAgainForTheSameSeed) {
  const uint64_t first = Exchanges(3).run().fingerprint;
  EXPECT_EQ(Exchanges(3).run().fingerprint, first);
  EXPECT_NE(Exchanges(4).run().fingerprint, first);
}

class SimulatedNetwork : public testing::Test {
 protected:
  void runAll() {
    while (!events.empty())
      if (const Event event = events.take(); event.kind != EventKind::kPoll) network.handle(event);
  }
  EventQueue events;
  Dice dice{7};
  Network network{events, dice, {.jitter_ns = 10'000, .spike_percent = 20, .pieces = 4}, {1, 4, 64}, 0, 2};
  Connection& connection = network.connection(0, 1, 0);

  void post(uint32_t bytes, Tag tag) {
    std::byte* slot = connection.sender().tryAcquire(kWholeSlot);
    ASSERT_NE(slot, nullptr);
    std::fill_n(slot, bytes, static_cast<std::byte>(tag));
    connection.sender().post(bytes, tag);
  }
};

TEST_F(SimulatedNetwork, KeepsTheOrderOfAConnection) {
  for (Tag tag = 1; tag <= 4; ++tag) post(static_cast<uint32_t>(10 * tag), tag);
  EXPECT_EQ(connection.sender().tryAcquire(kWholeSlot), nullptr) << "more slots than there are";
  EXPECT_EQ(connection.receiver().tryPeek(), nullptr) << "a message took no time";
  runAll();
  for (Tag tag = 1; tag <= 4; ++tag) {
    const Message* message = connection.receiver().tryPeek();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->tag, tag);
    EXPECT_EQ(message->bytes, 10 * tag);
    EXPECT_EQ(message->data[10 * tag - 1], static_cast<std::byte>(tag));
    connection.receiver().release();
  }
  EXPECT_EQ(connection.sender().tryAcquire(kWholeSlot), nullptr) << "a credit took no time";
  runAll();
  EXPECT_NE(connection.sender().tryAcquire(kWholeSlot), nullptr);
  EXPECT_EQ(network.violation(), "");
}

TEST_F(SimulatedNetwork, SeesWhoTouchesMemoryThatIsNotHis) {
  std::byte* slot = connection.sender().tryAcquire(kWholeSlot);
  connection.sender().post(64, 1);
  slot[5] = std::byte{1};
  for (Tag tag = 2; tag <= 4; ++tag) post(1, tag);
  runAll();
  ASSERT_NE(connection.receiver().tryPeek(), nullptr);
  connection.receiver().release();
  runAll();
  EXPECT_NE(connection.sender().tryAcquire(kWholeSlot), nullptr);
  EXPECT_NE(network.violation().find("after it had posted it"), std::string::npos) << network.violation();
}

TEST_F(SimulatedNetwork, DeliversWhatWasSentBeforeARankLeft) {
  post(8, 1);
  network.leave(0);
  runAll();
  ASSERT_NE(connection.receiver().tryPeek(), nullptr);
  EXPECT_TRUE(network.presence(1).status.ok());
  connection.receiver().release();
  EXPECT_EQ(connection.receiver().tryPeek(), nullptr);
  EXPECT_EQ(network.presence(1).status.code(), Code::kRemoteError);
}

TEST_F(SimulatedNetwork, LosesNothingWhenALinkBreaksAndIsMadeAgain) {
  post(8, 1);
  runAll();
  ASSERT_NE(connection.receiver().tryPeek(), nullptr);
  connection.receiver().release();
  post(16, 2);
  EXPECT_TRUE(connection.sender().flushed());
  network.breakOff(0, 1);
  EXPECT_FALSE(connection.sender().flushed()) << "it may be lost";
  post(24, 3);
  runAll();
  EXPECT_TRUE(connection.sender().flushed());
  for (const Tag tag : {2, 3}) {
    const Message* message = connection.receiver().tryPeek();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->tag, tag);
    EXPECT_EQ(message->data[message->bytes - 1], static_cast<std::byte>(tag));
    connection.receiver().release();
  }
  for (int slot = 0; slot < 2; ++slot) post(1, 4);
  EXPECT_EQ(connection.sender().tryAcquire(kWholeSlot), nullptr) << "two credits are under way";
  runAll();
  EXPECT_NE(connection.sender().tryAcquire(kWholeSlot), nullptr);
  EXPECT_EQ(network.violation(), "");
}

TEST_F(SimulatedNetwork, LosesWhatIsUnderWayOverALinkThatIsCut) {
  post(8, 1);
  network.cut(0, 1);
  runAll();
  EXPECT_EQ(connection.receiver().tryPeek(), nullptr);
  EXPECT_FALSE(network.presence(0).status.ok());
  EXPECT_FALSE(network.presence(1).status.ok());
}

}  // namespace
}  // namespace horing::simulated
