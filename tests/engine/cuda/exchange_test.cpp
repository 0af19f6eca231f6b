// Sends and receives as kernels, run on the host.
#include "engine/cuda/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "../../sanitizer.h"
#include "emulated_block.h"
#include "exchange_world.h"
#include "gpu_world.h"

namespace horing {
namespace {

using cuda::ExchangeCall;
using test::EmulatedExchangeBlock;
using test::EmulatedExchangeThread;
using test::ExchangeShape;
using test::Fibers;
using test::HostMemory;
using test::messageOf;

using Bytes = std::vector<std::byte>;

class Messages {
 public:
  explicit Messages(const ExchangeShape& shape) : world_(shape, memory_, &abort_) {}

  void send(int from, int to, std::span<const std::byte> data) { world_.send(from, to, data); }
  void receive(int to, int from, std::span<std::byte> data) { world_.receive(to, from, data); }

  // The rank's operations from here on are for later kernels.
  void nextGroup(int rank) {
    groups_.resize(world_.ranks());
    auto& kernels = groups_[static_cast<size_t>(rank)];
    for (const ExchangeCall& call : world_.take(static_cast<size_t>(rank))) kernels.push_back(call);
  }
  // The kernels of every rank; seed < 0: each GPU thread a thread of the system. False: they hang.
  bool run(int64_t seed, uint32_t threads = 2) {
    std::vector<std::function<void()>> bodies;
    std::vector<std::unique_ptr<EmulatedExchangeBlock>> blocks;
    std::vector<std::vector<ExchangeCall>> calls;
    std::vector<std::unique_ptr<std::atomic<int>>> left;
    groups_.resize(world_.ranks());
    for (size_t rank = 0; rank < world_.ranks(); ++rank) {
      nextGroup(static_cast<int>(rank));
      calls.push_back(std::exchange(groups_[rank], {}));
    }
    for (size_t rank = 0; rank < world_.ranks(); ++rank) {
      std::atomic<int>* before = nullptr;
      for (const ExchangeCall& call : calls[rank]) {
        const int32_t count = call.blocks;
        auto& running =
            *left.emplace_back(std::make_unique<std::atomic<int>>(count * static_cast<int>(threads)));
        for (int32_t number = 0; number < count; ++number) {
          auto& block = *blocks.emplace_back(std::make_unique<EmulatedExchangeBlock>(threads));
          for (uint32_t thread = 0; thread < threads; ++thread)
            bodies.push_back([&call, &block, &running, before, number, thread] {
              while (before && before->load() > 0) EmulatedExchangeBlock::pause();
              EmulatedExchangeThread self(block, thread);
              (void)cuda::ExchangeRun(call, number, self).run();
              --running;
            });
        }
        before = &running;
      }
      kernels_ = std::max(kernels_, calls[rank].size());
    }
    if (seed >= 0) return test::runAsFibers(bodies, static_cast<uint64_t>(seed), 4'000'000);
    test::runAsThreads(bodies);
    return true;
  }

  Status outcome(int rank) const { return world_.outcome(static_cast<size_t>(rank)); }
  size_t kernels() const { return kernels_; }  // of the rank that needed most
  uint32_t& abort() { return abort_; }

 private:
  HostMemory memory_;
  uint32_t abort_ = 0;
  test::ExchangeWorld world_;
  std::vector<std::vector<ExchangeCall>> groups_;  // by rank
  size_t kernels_ = 0;
};

// Every rank sends each other one of these sizes, all at once, which shall arrive.
void expectAllArrive(const ExchangeShape& shape, const std::vector<size_t>& sizes, int64_t seed,
                     uint32_t threads = 2) {
  Messages ranks(shape);
  struct Sent {
    Bytes sent, received;
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Sent>> all;
    for (int from = 0; from < shape.ranks; ++from)
      for (int to = 0; to < shape.ranks; ++to)
        for (size_t number = 0; from != to && number < sizes.size(); ++number) {
          const Bytes data = messageOf(from, to, number, sizes[number]);
          Sent& one = *all.emplace_back(std::make_unique<Sent>(Sent{data, Bytes(data.size())}));
          ranks.send(from, to, one.sent);
          ranks.receive(to, from, one.received);
        }
    ASSERT_TRUE(ranks.run(seed, threads)) << "hangs with seed " << seed;
    for (int rank = 0; rank < shape.ranks; ++rank)
      ASSERT_TRUE(ranks.outcome(rank).ok()) << ranks.outcome(rank).toString();
    for (const auto& one : all)
      ASSERT_TRUE(one->sent == one->received) << "of " << one->sent.size() << " bytes";
  }
}

TEST(CudaExchange, CarriesMessagesOfAllSizesByThreadsOfTheSystem) {
  expectAllArrive({.ranks = 3}, {0, 1, 255, 256, 257, 5000}, -1);
}

// As messages carried by hosts, whose queues have less room.
TEST(CudaExchange, CarriesThemWithFewerPartsBetweenSomeRanks) {
  expectAllArrive({.ranks = 4, .most_far_parts = 1}, {0, 1, 257, 5000}, -1);
  expectAllArrive({.ranks = 3, .parts = 5, .most_far_parts = 2}, {5000, 0, 9000}, -1);
}

// Fibers switch stacks behind ThreadSanitizer's back.
#if !defined(HORING_TEST_TSAN)
TEST(CudaExchange, CarriesThemInAnyOrderOfItsThreads) {
  for (int64_t seed = 0; seed < 10; ++seed) expectAllArrive({.ranks = 3}, {0, 1, 255, 256, 257, 5000}, seed);
}

TEST(CudaExchange, CutsThemIntoPartsAndLetsBlocksLookAfterMany) {
  for (const int32_t parts : {1, 2, 5})
    for (const int32_t blocks : {1, 2, 20})
      for (const uint32_t threads : {1u, 3u})
        expectAllArrive({.ranks = 4, .parts = parts, .blocks = blocks}, {10, 40000, 600}, 3, threads);
}

TEST(CudaExchange, TakesWhatIsNotAligned) {
  for (const size_t shift : {0, 1, 2, 4, 100})
    for (const size_t bytes : {1, 3000, 3004, 3010}) {
      Messages ranks({});
      const Bytes sent = messageOf(0, 1, 0, shift + bytes);
      Bytes received(bytes + 2);
      ranks.send(0, 1, std::span(sent).subspan(shift));
      ranks.receive(1, 0, std::span(received).subspan(1, bytes));
      ASSERT_TRUE(ranks.run(1));
      EXPECT_TRUE(
          std::equal(sent.begin() + static_cast<std::ptrdiff_t>(shift), sent.end(), received.begin() + 1));
      EXPECT_EQ(received.front(), std::byte{0});
      EXPECT_EQ(received.back(), std::byte{0});
    }
}

// More than a kernel has room for: several, and none waits for what another rank has in a later one.
TEST(CudaExchange, CarriesMoreThanAKernelTakes) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 150; ++i) sizes.push_back(i * 37 % 300);
  expectAllArrive({.ranks = 3, .parts = 1, .slots = 2}, sizes, 1);
}

// A rank that has messages with one other only comes to its last while its peer is at its first kernel.
TEST(CudaExchange, NeedsNoEqualNumberOfKernels) {
  Messages ranks({.ranks = 3, .parts = 1, .slots = 2});
  std::vector<Bytes> sent, received;
  for (size_t i = 0; i < 380; ++i) {
    sent.push_back(messageOf(0, 1, i, 700));
    received.emplace_back(700);
  }
  for (size_t i = 0; i < 380; ++i) {
    ranks.send(0, 1, sent[i]);
    ranks.receive(1, 0, received[i]);
  }
  Bytes other = messageOf(2, 0, 0, 9000), from_other(9000);
  ranks.send(2, 0, other);
  ranks.receive(0, 2, from_other);
  ASSERT_TRUE(ranks.run(2));
  EXPECT_EQ(ranks.kernels(), 4u);
  for (size_t i = 0; i < sent.size(); ++i) ASSERT_TRUE(sent[i] == received[i]) << i;
  EXPECT_TRUE(other == from_other);
}

// A rank that waits in one group for what its peer has in the next: a kernel has all messages of a group, if it has room.
TEST(CudaExchange, NeedsNoEqualGroups) {
  Messages ranks({.ranks = 2, .parts = 1, .slots = 2});
  std::vector<Bytes> sent, received(100, Bytes(700));
  for (size_t i = 0; i < 100; ++i) sent.push_back(messageOf(0, 1, i, 700));
  Bytes back = messageOf(1, 0, 0, 5000), got(5000);
  for (size_t i = 0; i < 100; ++i) ranks.send(0, 1, sent[i]);
  ranks.receive(0, 1, got);
  for (size_t i = 0; i < 100; ++i) ranks.receive(1, 0, received[i]);
  ranks.nextGroup(1);
  ranks.send(1, 0, back);
  ASSERT_TRUE(ranks.run(1));
  EXPECT_TRUE(sent == received);
  EXPECT_TRUE(back == got);
}

TEST(CudaExchange, NamesMessagesOfOtherSizes) {
  for (const size_t bytes : {0, 300}) {
    Messages ranks({});
    const Bytes sent(bytes);
    Bytes received(200);
    ranks.send(0, 1, sent);
    ranks.receive(1, 0, received);
    ASSERT_TRUE(ranks.run(1));
    const Status outcome = ranks.outcome(1);
    EXPECT_EQ(outcome.code(), Code::kInvalidUsage);
    const std::string what =
        formatString("200 bytes from rank 0 was expected, and one of %zu bytes arrived", bytes);
    EXPECT_NE(outcome.message().find(what), std::string::npos) << outcome.toString();
  }
}

TEST(CudaExchange, GivesUpInTimeAndNamesWhoNeverCame) {
  Messages ranks({.timeout_ns = 1'000'000});
  Bytes received(200);
  ranks.receive(1, 0, received);
  ASSERT_TRUE(ranks.run(1));
  const Status outcome = ranks.outcome(1);
  EXPECT_EQ(outcome.code(), Code::kTimeout);
  EXPECT_NE(outcome.message().find("a message of 200 bytes from rank 0 did not get on for 1 ms"),
            std::string::npos)
      << outcome.toString();
  EXPECT_TRUE(ranks.outcome(0).ok());
  EXPECT_NE(ranks.abort(), 0u);
}

TEST(CudaExchange, EndsWhenTold) {
  Messages ranks({});
  ranks.abort() = 1;
  Bytes sent(100'000);
  ranks.send(0, 1, sent);
  ASSERT_TRUE(ranks.run(1));
  EXPECT_EQ(ranks.outcome(0).code(), Code::kRemoteError);
}
#endif

TEST(CudaExchange, HasPartsThatAllItemsFindABlock) {
  EXPECT_EQ(cuda::exchangeParts(0, 8, 8), 0);
  EXPECT_EQ(cuda::exchangeParts(1, 64, 32), 32);
  EXPECT_EQ(cuda::exchangeParts(7, 8, 64), 8);
  EXPECT_EQ(cuda::exchangeParts(32, 8, 1), 1);
  EXPECT_EQ(cuda::exchangeParts(33, 8, 64), 0);
}

}  // namespace
}  // namespace horing
