// Copies that the host asks kernels for, run on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "../../sanitizer.h"
#include "emulated_block.h"
#include "engine/cuda/copy_run.h"

namespace horing {
namespace {

using cuda::CopyCall;
using cuda::CopyCount;
using cuda::CopyRequest;
using test::EmulatedCopyBlock;
using test::EmulatedCopyThread;
using test::Fibers;

using Bytes = std::vector<std::byte>;

Bytes patternOf(size_t bytes, size_t seed) {
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 251 + seed * 31 + 1);
  return values;
}

// Kernels of one pair of host and GPU, and the host's end.
class Copies {
 public:
  Copies(int32_t blocks, uint32_t room) : done_(static_cast<size_t>(blocks)), requests_(room) {}

  CopyCall call(uint32_t last) {
    CopyCall call;
    call.posted = &posted_;
    call.done = done_.data();
    call.requests = requests_.data();
    call.room = room();
    call.blocks = static_cast<int32_t>(done_.size());
    call.reached = &reached_;
    call.last = last;
    call.ended = &ended_;
    return call;
  }
  void post(const CopyRequest& request) {
    while (left() >= room()) EmulatedCopyBlock::pause();
    requests_[posted_.value % room()] = request;
    cuda::storeRelease(&posted_.value, posted_.value + 1);
  }
  // That some block has not done.
  uint64_t left() const {
    uint64_t least = posted_.value;
    for (const CopyCount& done : done_) least = std::min(least, cuda::loadAcquire(&done.value));
    return posted_.value - least;
  }
  void reach(uint32_t number) { cuda::storeFlag(&reached_, number); }
  void end() { cuda::storeFlag(&ended_, 1); }

  // Kernels one after the other, concurrent with the host; seed < 0: each GPU thread is a thread of the system. False: they hang.
  bool run(const std::vector<uint32_t>& kernels, int64_t seed, const std::function<void()>& host,
           uint32_t threads = 2) {
    std::vector<std::unique_ptr<EmulatedCopyBlock>> blocks;
    std::vector<std::function<void()>> bodies{host};
    std::vector<CopyCall> calls;
    std::vector<std::unique_ptr<std::atomic<size_t>>> running;
    for (const uint32_t last : kernels) calls.push_back(call(last));
    for (size_t kernel = 0; kernel < calls.size(); ++kernel) {
      running.push_back(std::make_unique<std::atomic<size_t>>(done_.size() * threads));
      for (size_t number = 0; number < done_.size(); ++number) {
        auto& block = *blocks.emplace_back(std::make_unique<EmulatedCopyBlock>(threads));
        for (uint32_t thread = 0; thread < threads; ++thread)
          bodies.push_back([&, &own = *running.back(),
                            before = kernel > 0 ? running[kernel - 1].get() : nullptr, kernel, number,
                            thread] {
            while (before && before->load() > 0) EmulatedCopyBlock::pause();
            EmulatedCopyThread self(block, thread);
            cuda::CopyRun(calls[kernel], static_cast<int32_t>(number), self).run();
            --own;
          });
      }
    }
    if (seed >= 0) return test::runAsFibers(bodies, static_cast<uint64_t>(seed), 4'000'000);
    test::runAsThreads(bodies);
    return true;
  }

 private:
  uint32_t room() const { return static_cast<uint32_t>(requests_.size()); }

  CopyCount posted_;
  std::vector<CopyCount> done_;
  std::vector<CopyRequest> requests_;
  uint32_t reached_ = 0;
  uint32_t ended_ = 0;
};

// Copies of all sizes and alignments by several kernels in a row, each of which gets a few: more than there is room for at once.
void expectAllCopied(int32_t blocks, int64_t seed, uint32_t threads = 2) {
  constexpr size_t kSizes[] = {1, 3, 16, 17, 127, 128, 250, 4096, 70'001};
  constexpr uint32_t kKernels = 3;
  struct Copied {
    Bytes from, to;
    size_t from_shift, to_shift, bytes;
  };
  std::vector<Copied> all;
  for (const size_t bytes : kSizes)
    for (const size_t from_shift : {0, 1, 4})
      for (const size_t to_shift : {0, 2, 4})
        all.push_back({patternOf(bytes + 16, all.size()), Bytes(bytes + 16), from_shift, to_shift, bytes});
  Copies copies(blocks, 3);
  const auto host = [&] {
    for (uint32_t kernel = 1; kernel <= kKernels; ++kernel) {
      for (size_t i = kernel - 1; i < all.size(); i += kKernels) {
        Copied& copied = all[i];
        copies.post(
            {copied.to.data() + copied.to_shift, copied.from.data() + copied.from_shift, copied.bytes});
      }
      while (copies.left() > 0) EmulatedCopyBlock::pause();
      copies.reach(kernel);
    }
  };
  ASSERT_TRUE(copies.run({1, 2, 3}, seed, host, threads)) << "hangs with seed " << seed;
  for (const Copied& copied : all) {
    Bytes expected(copied.to.size());
    std::copy_n(copied.from.data() + copied.from_shift, copied.bytes, expected.data() + copied.to_shift);
    ASSERT_TRUE(copied.to == expected) << copied.bytes << " bytes";
  }
}

TEST(CudaCopy, MovesAllSizesByThreadsOfTheSystem) {
  expectAllCopied(2, -1);
}

// Whatever is left, which has no memory any more.
void expectNothingDone(Copies& copies, const std::vector<uint32_t>& kernels, int64_t seed) {
  copies.post({nullptr, nullptr, 1000});
  ASSERT_TRUE(copies.run(kernels, seed, [] {}));
  EXPECT_EQ(copies.left(), 1u);
}

TEST(CudaCopy, DoesNothingOfWhatIsLeftWhenItIsOver) {
  Copies copies(3, 4);
  copies.reach(7);
  expectNothingDone(copies, {6, 7}, -1);
}

TEST(CudaCopy, DoesNothingOnceItWasEnded) {
  Copies copies(3, 4);
  copies.end();
  expectNothingDone(copies, {1, 2}, -1);
}

// Numbers wrap around.
TEST(CudaCopy, RunsUntilItsOwnNumber) {
  Copies copies(1, 4);
  copies.reach(UINT32_MAX);
  Bytes from = patternOf(100, 1), to(100);
  ASSERT_TRUE(copies.run({1}, -1, [&] {
    copies.post({to.data(), from.data(), 100});
    while (copies.left() > 0) EmulatedCopyBlock::pause();
    copies.reach(1);
  }));
  EXPECT_TRUE(from == to);
}

// Fibers switch stacks behind ThreadSanitizer's back.
#if !defined(HORING_TEST_TSAN)
TEST(CudaCopy, MovesThemInAnyOrderOfItsThreads) {
  for (int64_t seed = 0; seed < 10; ++seed) expectAllCopied(2, seed, static_cast<uint32_t>(seed % 3 + 1));
}
#endif

}  // namespace
}  // namespace horing
