// The contract of waiting: ranks as threads that block until a peer has something for them.
#include <atomic>

#include "contract_ranks.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 1, .slots = 2, .slot_bytes = 256};

class WaitContract : public TransportContract {};

enum class Woken { kYes, kLostWakeUp, kError };

// Blocks, without spinning, until `done`. A wake-up that never comes shows as kLostWakeUp.
Woken waitUntil(Transport& transport, const std::function<bool()>& done) {
  while (true) {
    if (!transport.progress().ok()) return Woken::kError;
    if (done()) return Woken::kYes;
    transport.beginWait();
    if (!transport.progress().ok()) return Woken::kError;
    const bool already = done();
    const int fd = transport.waitFd();
    if (!already && fd < 0) std::this_thread::yield();
    pollfd ready{fd, POLLIN, 0};
    const int woken = already || fd < 0 ? 1 : ::poll(&ready, 1, static_cast<int>(kPatienceMs));
    transport.endWait();
    if (woken == 0) return Woken::kLostWakeUp;
    if (already) return Woken::kYes;
  }
}

struct Side {
  Transport* transport;
  int rank, peer;
  std::vector<std::byte> peer_address;
  uint64_t rounds;
  std::string failure;  // empty if all went well
};

void fail(Side& side, Woken how, const char* what, uint64_t round) {
  side.failure = formatString(
      "rank %d, %s of round %llu: %s", side.rank, what, static_cast<unsigned long long>(round),
      how == Woken::kLostWakeUp ? "lost wake-up" : side.transport->progress().toString().c_str());
}

// Rank 0 serves: both send and receive one message a round, in turn.
void pingPong(Side& side) {
  Result<Link*> link = side.transport->connect(side.peer, side.peer_address, kShape);
  if (!link.ok()) return fail(side, Woken::kError, "connect", 0);
  Link& mine = *link.value();
  if (const Woken how = waitUntil(*side.transport, [&] { return mine.established(); }); how != Woken::kYes) {
    return fail(side, how, "handshake", 0);
  }
  std::byte* slot = nullptr;
  const Message* message = nullptr;
  for (uint64_t round = 0; round < side.rounds; ++round) {
    for (const bool send : {side.rank == 0, side.rank != 0}) {
      const uint32_t bytes = static_cast<uint32_t>(round % 257);
      const Woken how = waitUntil(*side.transport, [&] {
        return send ? (slot = mine.sender(0).tryAcquire(kWholeSlot)) != nullptr
                    : (message = mine.receiver(0).tryPeek()) != nullptr;
      });
      if (how != Woken::kYes) return fail(side, how, send ? "sending" : "receiving", round);
      if (send) {
        fillPattern(slot, bytes, round);
        mine.sender(0).post(bytes, round);
        continue;
      }
      if (message->tag != round || message->bytes != bytes ||
          matchPattern(message->data, bytes, round) != bytes) {
        side.failure =
            formatString("rank %d: round %llu is damaged", side.rank, static_cast<unsigned long long>(round));
        return;
      }
      mine.receiver(0).release();
    }
  }
  // A transport that needs this rank's help to deliver gets it.
  waitUntil(*side.transport, [&] { return mine.sender(0).flushed() && mine.receiver(0).flushed(); });
}

TEST_P(WaitContract, LosesNoWakeUpInTenThousandRoundTrips) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  Side sides[] = {{&ranks.at(0), 0, 1, ranks.at(1).address(), 10'000, {}},
                  {&ranks.at(1), 1, 0, ranks.at(0).address(), 10'000, {}}};
  std::thread other([&] { pingPong(sides[1]); });
  pingPong(sides[0]);
  other.join();
  EXPECT_EQ(sides[0].failure, "");
  EXPECT_EQ(sides[1].failure, "");
}

// One sends as fast as credits allow, the other consumes: both block, on messages and on credits.
TEST_P(WaitContract, WakesForCreditsToo) {
  constexpr uint64_t kMessages = 5000;
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  Sender& sender = a->sender(0);
  Receiver& receiver = b->receiver(0);
  Woken consumed = Woken::kYes;
  uint64_t damaged = 0;
  std::thread consumer([&] {
    const Message* message = nullptr;
    for (uint64_t i = 0; i < kMessages && consumed == Woken::kYes; ++i) {
      consumed = waitUntil(ranks.at(1), [&] { return (message = receiver.tryPeek()) != nullptr; });
      if (consumed != Woken::kYes) break;
      if (message->tag != i || matchPattern(message->data, message->bytes, i) != message->bytes) ++damaged;
      receiver.release();
    }
    if (consumed == Woken::kYes) waitUntil(ranks.at(1), [&] { return receiver.flushed(); });
  });
  Woken produced = Woken::kYes;
  std::byte* slot = nullptr;
  for (uint64_t i = 0; i < kMessages && produced == Woken::kYes; ++i) {
    produced = waitUntil(ranks.at(0), [&] { return (slot = sender.tryAcquire(kWholeSlot)) != nullptr; });
    if (produced != Woken::kYes) break;
    fillPattern(slot, 256, i);
    sender.post(256, i);
  }
  if (produced == Woken::kYes) waitUntil(ranks.at(0), [&] { return sender.flushed(); });
  consumer.join();
  EXPECT_EQ(produced, Woken::kYes);
  EXPECT_EQ(consumed, Woken::kYes);
  EXPECT_EQ(damaged, 0u);
}

TEST_P(WaitContract, BlocksWhileThereIsNothing) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  for (int i = 0; i < 100; ++i) ranks.pump();
  Transport& idle = ranks.at(0);
  int quiet = 0;
  for (int i = 0; i < 10; ++i) {
    idle.beginWait();
    ASSERT_TRUE(idle.progress().ok());
    pollfd ready{idle.waitFd(), POLLIN, 0};
    if (idle.waitFd() >= 0 && ::poll(&ready, 1, 0) == 0) ++quiet;
    idle.endWait();
  }
  EXPECT_GT(quiet, 0) << "an idle rank must be able to sleep";
}

TEST_P(WaitContract, WakesWhenThePeerLeaves) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  std::atomic<bool> waiting{false};
  Woken how = Woken::kYes;
  Link* link = a;
  std::thread waiter([&] {
    how = waitUntil(ranks.at(0), [&] {
      waiting.store(true);
      return link->receiver(0).tryPeek() != nullptr || !link->status().ok();
    });
  });
  while (!waiting.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ranks.destroy(1);
  waiter.join();
  EXPECT_NE(how, Woken::kLostWakeUp);
  EXPECT_EQ(link->status().code(), Code::kRemoteError);
}

INSTANTIATE_TEST_SUITE_P(Transports, WaitContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
