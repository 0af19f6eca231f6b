// A rank that is in no call still re-establishes broken connections for the ranks that wait for it.
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <thread>

#include "../break_connections.h"
#include "comm_ranks.h"

namespace horing {
namespace {

Status send(Communicator& comm, const uint64_t& word) {
  const Transfer transfer{
      .kind = Transfer::Send{reinterpret_cast<const std::byte*>(&word)}, .peer = 1, .bytes = sizeof word};
  return comm.messages().exchange({&transfer, 1});
}

Status receive(Communicator& comm, uint64_t& word) {
  const Transfer transfer{
      .kind = Transfer::Receive{reinterpret_cast<std::byte*>(&word)}, .peer = 0, .bytes = sizeof word};
  return comm.messages().exchange({&transfer, 1});
}

// The second message would fit into what the receiver has ready, but the way there has to be made again by both. What the sender does
// when it is through, the receiver does before.
void breakBetween(const std::function<void(Communicator&)>& sender_after,
                  const std::function<void(Communicator&)>& receiver_before) {
  const auto root = rootOfThisMachine();
  const auto ranks = makeRanks(2, *root, [](CommunicatorOptions& options) {
    options.config.transports = "socket";
    options.config.socket_ifname = "lo";
    options.config.timeout_ms = options.config.init_timeout_ms = 20'000;
  });
  ASSERT_TRUE(ranks[0] && ranks[1]);
  std::latch first_through(2);
  std::thread receiver([&] {
    const auto& comm = ranks[1];
    uint64_t word = 0;
    const Status first = receive(*comm, word);
    EXPECT_TRUE(first.ok() && word == 17) << first.toString();
    first_through.arrive_and_wait();
    receiver_before(*comm);
    const Status second = receive(*comm, word);
    EXPECT_TRUE(second.ok() && word == 18) << second.toString();
    EXPECT_TRUE(comm->leave().ok());
  });
  const auto& comm = ranks[0];
  Status sent = send(*comm, 17);
  EXPECT_TRUE(sent.ok()) << sent.toString();
  first_through.arrive_and_wait();
  EXPECT_GE(testing::breakConnections([] { return true; }), 1);
  sent = send(*comm, 18);
  EXPECT_TRUE(sent.ok()) << sent.toString();
  sender_after(*comm);
  receiver.join();
  EXPECT_TRUE(comm->leave().ok());
}

TEST(BetweenCalls, ARankTakesBackConnectionsThatBrokeForThoseThatWait) {
  std::latch second_sent(1);
  breakBetween([&](Communicator&) { second_sent.count_down(); }, [&](Communicator&) { second_sent.wait(); });
}

TEST(BetweenCalls, SoDoesOneThatWaitsForTheRendezvous) {
  const auto exchange = [](Communicator& comm) {
    const auto gathered = comm.allGather({});
    EXPECT_TRUE(gathered.ok()) << gathered.status().toString();
  };
  breakBetween(exchange, exchange);
}

}  // namespace
}  // namespace horing
