#pragma once
// Ranks of one test: transports from a fixture, linked with each other, driven by the test's own thread.
#include <poll.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract.h"
#include "gtest/gtest.h"
#include "pump.h"

namespace horing::testing {

class ContractRanks {
 public:
  ContractRanks(const TransportCase& which, int ranks)
      : fixture_(which.make_fixture()), transports_(fixture_->make(ranks)) {}
  // All at once, as the ranks of a job leave: one whose connection has just broken waits for its peer.
  ~ContractRanks() {
    std::vector<std::thread> leaving;
    for (auto& transport : transports_) leaving.emplace_back([&transport] { transport.reset(); });
    for (std::thread& thread : leaving) thread.join();
  }
  ContractRanks(const ContractRanks&) = delete;
  ContractRanks& operator=(const ContractRanks&) = delete;

  bool made(int ranks) const { return transports_.size() == static_cast<size_t>(ranks); }
  TransportFixture& fixture() { return *fixture_; }
  Transport& at(int rank) { return *transports_[static_cast<size_t>(rank)]; }
  void destroy(int rank) { transports_[static_cast<size_t>(rank)].reset(); }

  // Begins one end of a link; nullptr (and a test failure) if that is refused.
  Link* connect(int rank, int peer, const LinkShape& shape, int number = 0) {
    Result<Link*> link = at(rank).connect(peer, at(peer).address(), shape, number);
    EXPECT_TRUE(link.ok()) << link.status().toString();
    return link.ok() ? link.value() : nullptr;
  }
  // Both ends, up to established().
  std::pair<Link*, Link*> link(int a, int b, const LinkShape& shape, int number = 0) {
    const std::pair<Link*, Link*> both{connect(a, b, shape, number), connect(b, a, shape, number)};
    if (both.first == nullptr || both.second == nullptr) return {nullptr, nullptr};
    EXPECT_TRUE(pumpUntil([&] { return both.first->established() && both.second->established(); }))
        << both.first->status().toString() << both.second->status().toString();
    return both;
  }
  // One progress() of every rank.
  void pump() {
    for (auto& transport : transports_) {
      if (transport != nullptr) [[maybe_unused]]
        const Status status = transport->progress();
    }
  }
  // True once `done`; false when patience is at its end.
  bool pumpUntil(const std::function<bool()>& done) { return testing::pumpUntil(transports_, done); }
  std::byte* acquire(Sender& sender) {
    std::byte* slot = nullptr;
    pumpUntil([&] { return (slot = sender.tryAcquire(kWholeSlot)) != nullptr; });
    return slot;
  }
  const Message* peek(Receiver& receiver) {
    const Message* message = nullptr;
    pumpUntil([&] { return (message = receiver.tryPeek()) != nullptr; });
    return message;
  }

 private:
  std::unique_ptr<TransportFixture> fixture_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

// Content that differs from byte to byte, message to message and connection to connection.
inline std::byte patternByte(uint64_t seed, size_t index) {
  return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15u + index * 131) >> 16);
}
inline void fillPattern(std::byte* data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; ++i) data[i] = patternByte(seed, i);
}
// Index of the first byte that differs, or `bytes`.
inline size_t matchPattern(const std::byte* data, size_t bytes, uint64_t seed) {
  size_t i = 0;
  while (i < bytes && data[i] == patternByte(seed, i)) ++i;
  return i;
}

// Acquires, fills and posts one message; false if no slot comes.
inline bool sendPattern(ContractRanks& ranks, Sender& sender, uint32_t bytes, uint64_t seed) {
  std::byte* slot = ranks.acquire(sender);
  if (slot == nullptr) return false;
  fillPattern(slot, bytes, seed);
  sender.post(bytes, seed);
  return true;
}
// Peeks, compares and releases one message.
inline void expectPattern(ContractRanks& ranks, Receiver& receiver, uint32_t bytes, uint64_t seed) {
  const Message* message = ranks.peek(receiver);
  ASSERT_NE(message, nullptr) << "message " << seed << " did not arrive";
  EXPECT_EQ(message->tag, seed);
  ASSERT_EQ(message->bytes, bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(message->data) % 64, 0u);
  EXPECT_EQ(matchPattern(message->data, bytes, seed), bytes) << "of message " << seed;
  receiver.release();
}

// Whether the link joins nodes, also behind a decorator.
inline bool isBetweenNodes(const Link& link) {
  const std::string described = link.describe();
  return described.find("socket") != std::string::npos || described.find("verbs") != std::string::npos;
}

class TransportContract : public ::testing::TestWithParam<TransportCase> {};

inline std::string caseName(const ::testing::TestParamInfo<TransportCase>& info) {
  return info.param.name;
}

}  // namespace horing::testing
