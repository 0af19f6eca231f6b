// Sends and receives as kernels, run on the host.
#include "engine/cuda/exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "emulated_block.h"
#include "engine/cuda/bound_exchange.h"
#include "gpu_world.h"

namespace horing {
namespace {

using cuda::BoundExchange;
using cuda::ExchangeCall;
using test::EmulatedExchangeBlock;
using test::EmulatedExchangeThread;
using test::Fibers;
using test::HostMemory;

using Bytes = std::vector<std::byte>;

// What rank `from` sends to `to` in its message `number`.
Bytes message(int from, int to, size_t number, size_t bytes) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] =
        static_cast<std::byte>(i * 7 + i / 251 + static_cast<size_t>(from * 31 + to * 13) + number * 101);
  return data;
}

struct Shape {
  int ranks = 2;
  int32_t parts = 3;
  int32_t blocks = 4;
  uint32_t slot_bytes = 256;
  uint32_t slots = 3;
  uint32_t smallest_part_bytes = 512;
  uint64_t timeout_ns = UINT64_MAX;
};

// Ranks with queues to each other, and what each has to do.
class Ranks {
 public:
  explicit Ranks(const Shape& shape) : shape_(shape), transfers_(static_cast<size_t>(shape.ranks)) {
    const auto number = [&](int from, int to) { return static_cast<size_t>(from * shape_.ranks + to); };
    std::vector<std::vector<cuda::Queue*>> queues(number(shape_.ranks, 0));
    for (int from = 0; from < shape_.ranks; ++from)
      for (int to = 0; to < shape_.ranks; ++to)
        for (int32_t part = 0; from != to && part < shape_.parts; ++part) {
          auto* const at = reinterpret_cast<cuda::Queue*>(memory_.allocate(sizeof(cuda::Queue)).take());
          *at = cuda::makeQueue({shape_.slots, shape_.slot_bytes}, memory_, memory_).take();
          queues[number(from, to)].push_back(at);
        }
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      std::vector<cuda::Port*> ports;
      for (int peer = 0; peer < shape_.ranks; ++peer)
        for (const bool sends : {false, true})
          for (int32_t part = 0; part < shape_.parts; ++part) {
            const auto at = static_cast<size_t>(part);
            ports.push_back(peer == rank ? nullptr
                            : sends      ? &queues[number(rank, peer)][at]->send
                                         : &queues[number(peer, rank)][at]->receive);
          }
      exchanges_.push_back(
          BoundExchange::make(ports,
                              {shape_.parts, shape_.blocks, shape_.smallest_part_bytes, shape_.timeout_ns},
                              &abort_, memory_)
              .take());
    }
  }

  void send(int from, int to, std::span<const std::byte> data) {
    transfers_[static_cast<size_t>(from)].push_back(
        {.direction = Transfer::Direction::kSend, .peer = to, .input = data.data(), .bytes = data.size()});
  }
  void receive(int to, int from, std::span<std::byte> data) {
    transfers_[static_cast<size_t>(to)].push_back({.direction = Transfer::Direction::kReceive,
                                                   .peer = from,
                                                   .output = data.data(),
                                                   .bytes = data.size()});
  }

  // The kernels of every rank, one after the other; seed < 0: each GPU thread a thread of the system. False: they hang.
  bool run(int64_t seed, uint32_t threads = 2) {
    std::vector<std::function<void()>> bodies;
    std::vector<std::unique_ptr<EmulatedExchangeBlock>> blocks;
    std::vector<std::unique_ptr<std::vector<ExchangeCall>>> calls;
    std::vector<std::unique_ptr<std::atomic<int>>> left;
    for (size_t rank = 0; rank < transfers_.size(); ++rank) {
      const auto& own = *calls.emplace_back(
          std::make_unique<std::vector<ExchangeCall>>(exchanges_[rank]->prepare(transfers_[rank], 5)));
      std::atomic<int>* before = nullptr;
      for (const ExchangeCall& call : own) {
        const int32_t count = exchanges_[rank]->blocks(call);
        auto& running =
            *left.emplace_back(std::make_unique<std::atomic<int>>(count * static_cast<int>(threads)));
        for (int32_t number = 0; number < count; ++number) {
          auto& block = *blocks.emplace_back(std::make_unique<EmulatedExchangeBlock>(threads));
          for (uint32_t thread = 0; thread < threads; ++thread)
            bodies.push_back([&call, &block, &running, before, number, count, thread] {
              while (before && before->load() > 0) EmulatedExchangeBlock::pause();
              EmulatedExchangeThread self(block, thread);
              (void)cuda::ExchangeRun(call, number, count, self).run();
              --running;
            });
        }
        before = &running;
      }
      kernels_ = std::max(kernels_, own.size());
    }
    for (auto& transfers : transfers_) transfers.clear();
    if (seed < 0) {
      std::vector<std::thread> system;
      for (const auto& body : bodies) system.emplace_back(body);
      for (std::thread& thread : system) thread.join();
      return true;
    }
    Fibers fibers(static_cast<uint64_t>(seed));
    for (const auto& body : bodies) fibers.add(body);
    return fibers.run(4'000'000);
  }

  Status outcome(int rank) const { return exchanges_[static_cast<size_t>(rank)]->outcome(); }
  size_t kernels() const { return kernels_; }  // of the rank that needed most
  uint32_t& abort() { return abort_; }

 private:
  Shape shape_;
  HostMemory memory_;
  uint32_t abort_ = 0;
  std::vector<std::unique_ptr<BoundExchange>> exchanges_;
  std::vector<std::vector<Transfer>> transfers_;
  size_t kernels_ = 0;
};

// Every rank sends each other one of these sizes, all at once, which shall arrive.
void expectAllArrive(const Shape& shape, const std::vector<size_t>& sizes, int64_t seed,
                     uint32_t threads = 2) {
  Ranks ranks(shape);
  struct Sent {
    Bytes sent, received;
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Sent>> all;
    for (int from = 0; from < shape.ranks; ++from)
      for (int to = 0; to < shape.ranks; ++to)
        for (size_t number = 0; from != to && number < sizes.size(); ++number) {
          const Bytes data = message(from, to, number, sizes[number]);
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
      Ranks ranks({});
      const Bytes sent = message(0, 1, 0, shift + bytes);
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
  Ranks ranks({.ranks = 3, .parts = 1, .slots = 2});
  std::vector<Bytes> sent, received;
  for (size_t i = 0; i < 190; ++i) {
    sent.push_back(message(0, 1, i, 700));
    received.emplace_back(700);
  }
  for (size_t i = 0; i < 190; ++i) {
    ranks.send(0, 1, sent[i]);
    ranks.receive(1, 0, received[i]);
  }
  Bytes other = message(2, 0, 0, 9000), from_other(9000);
  ranks.send(2, 0, other);
  ranks.receive(0, 2, from_other);
  ASSERT_TRUE(ranks.run(2));
  EXPECT_EQ(ranks.kernels(), 2u);
  for (size_t i = 0; i < sent.size(); ++i) ASSERT_TRUE(sent[i] == received[i]) << i;
  EXPECT_TRUE(other == from_other);
}

TEST(CudaExchange, NamesMessagesOfOtherSizes) {
  Ranks ranks({});
  Bytes sent(300), received(200);
  ranks.send(0, 1, sent);
  ranks.receive(1, 0, received);
  ASSERT_TRUE(ranks.run(1));
  const Status outcome = ranks.outcome(1);
  EXPECT_EQ(outcome.code(), Code::kInvalidUsage);
  EXPECT_NE(outcome.message().find("200 bytes from rank 0 was expected, and one of 300 bytes came"),
            std::string::npos)
      << outcome.toString();
}

TEST(CudaExchange, GivesUpInTimeAndNamesWhoNeverCame) {
  Ranks ranks({.timeout_ns = 1'000'000});
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
  Ranks ranks({});
  ranks.abort() = 1;
  Bytes sent(100'000);
  ranks.send(0, 1, sent);
  ASSERT_TRUE(ranks.run(1));
  EXPECT_EQ(ranks.outcome(0).code(), Code::kRemoteError);
}
#endif

TEST(CudaExchange, HasPartsThatAllItemsFindABlock) {
  EXPECT_EQ(cuda::exchangeParts(1, 8, 8), 0);
  EXPECT_EQ(cuda::exchangeParts(2, 64, 32), 32);
  EXPECT_EQ(cuda::exchangeParts(8, 8, 64), 8);
  EXPECT_EQ(cuda::exchangeParts(33, 8, 1), 1);
  EXPECT_EQ(cuda::exchangeParts(34, 8, 64), 0);
}

}  // namespace
}  // namespace horing
