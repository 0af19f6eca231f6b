// Large all-gathers of ranks of one process, which are copies between GPUs. Emulated: streams of the fake driver run concurrently, each in
// order, and copies between GPUs take time.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

constexpr size_t kCount = 1000;

// What a rank gives, and what all have then.
std::vector<float> block(int rank, float first = 0) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i)
    values[i] = first + static_cast<float>(1000 * rank) + static_cast<float>(i % 7);
  return values;
}
std::vector<float> blocks(int ranks, float first = 0) {
  std::vector<float> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> one = block(rank, first);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

struct Place {
  int ranks;
  int gpus;
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.ranks << " ranks on " << place.gpus << " GPUs";
}

class GpuCopies : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (FakeCuda::isReal() && cuda_.gpus() < GetParam().gpus) GTEST_SKIP() << "fewer GPUs here";
    cuda_.setKernels(&horing::test::emulatedKernels());
    // Else ranks that all share one GPU have no use for copies.
    const Setting algorithm("HORING_ALGO", "all_gather=ring");
    comms_ = makeCommunicators(ranks(), Meeting::kInitAll);
    // What goes through hosts fails.
    cuda_.fail("cuStreamWaitValue32", 999);
  }
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    cuda_.setKernels(nullptr);
  }
  int ranks() const { return GetParam().ranks; }
  int gpu(int rank) const { return rank % GetParam().gpus; }
  static size_t begin(int rank) { return static_cast<size_t>(rank) * kCount; }
  // The block of that rank at its place, and nothing else.
  std::vector<float> alone(int rank, float first) const {
    std::vector<float> values(all(), -1);
    const std::vector<float> own = block(rank, first);
    std::copy(own.begin(), own.end(), values.begin() + static_cast<std::ptrdiff_t>(begin(rank)));
    return values;
  }
  size_t all() const { return kCount * static_cast<size_t>(ranks()); }
  int launches() const { return FakeCuda::isReal() ? 0 : cuda_.launches(); }
  horingResult_t gather(int rank, const float* from, float* to, const GpuStream& stream) const {
    return horingAllGather(from, to, kCount, horingFloat, comms_[static_cast<size_t>(rank)], stream.get());
  }
  horingResult_t add(int rank, float* data, const GpuStream& stream) const {
    return horingAllReduce(data, data, kCount, horingFloat, horingSum, comms_[static_cast<size_t>(rank)],
                           stream.get());
  }

  const Setting bytes_{"HORING_TESTS_GPU_COPY_BYTES", "4000"};
  const FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
};

TEST_P(GpuCopies, GiveAllBlocksToAllWithoutKernels) {
  const int before = launches();
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> mine(cuda_, gpu(rank), block(rank)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const GpuStream stream(cuda_, gpu(rank));
    ASSERT_HORING(gather(rank, mine.data(), gathered.data(), stream));
    stream.synchronize();
    EXPECT_EQ(gathered.read(), blocks(ranks()));
    // In place, and complete on return.
    gathered.write(alone(rank, 9));
    ASSERT_HORING(horingAllGather(gathered.data() + begin(rank), gathered.data(), kCount, horingFloat,
                                  comms_[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(gathered.read(), blocks(ranks(), 9));
    EXPECT_EQ(mine.read(), block(rank));
  });
  EXPECT_EQ(launches(), before);
}

// Which is of no GPU that a copy could name.
TEST_P(GpuCopies, ReadAndWritePinnedMemory) {
  onEveryRank(ranks(), [&](int rank) {
    const bool gives_pinned = rank % 2 == 0;
    const GpuVector<float> mine(cuda_, gpu(rank), block(rank)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const PinnedVector<float> given(cuda_, gpu(rank), block(rank)), taken(cuda_, gpu(rank), all());
    const GpuStream stream(cuda_, gpu(rank));
    ASSERT_HORING(gather(rank, gives_pinned ? given.data() : mine.data(),
                         gives_pinned ? gathered.data() : taken.data(), stream));
    stream.synchronize();
    EXPECT_EQ(gives_pinned ? gathered.read() : taken.values(), blocks(ranks()));
  });
}

TEST_P(GpuCopies, AreForLargeOnesAlone) {
  const int before = launches();
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> mine(cuda_, gpu(rank), block(rank)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    ASSERT_HORING(horingAllGather(mine.data(), gathered.data(), kCount - 1, horingFloat,
                                  comms_[static_cast<size_t>(rank)], nullptr));
  });
  if (!FakeCuda::isReal()) {
    EXPECT_GT(launches(), before);
  }
}

// A rank that calls late still runs the earlier work of its stream, and the other ranks wait for it.
TEST_P(GpuCopies, WriteToNobodyWhoseStreamHasNotCome) {
  std::atomic<bool> gate{false};
  std::atomic<int> called{0};
  onEveryRank(ranks(), [&](int rank) {
    const bool is_late = rank == ranks() - 1;
    const PinnedVector<float> sevens(cuda_, gpu(rank), std::vector<float>(all(), 7)),
        before(cuda_, gpu(rank), all()), given(cuda_, gpu(rank), block(rank, 5));
    const GpuVector<float> mine(cuda_, gpu(rank), block(rank)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const GpuStream stream(cuda_, gpu(rank));
    // Loads kernels, for which a driver may wait for all streams.
    ASSERT_HORING(gather(rank, mine.data(), gathered.data(), stream));
    stream.synchronize();
    if (is_late) {
      stream.waitFor(gate);
      gathered.readOn(stream, before);
      gathered.writeOn(stream, sevens);
    }
    mine.writeOn(stream, given);
    ASSERT_HORING(gather(rank, mine.data(), gathered.data(), stream));
    if (++called == ranks()) {
      // Ranks that do not wait are done by now.
      for (int look = 0; look < 10; ++look) EXPECT_EQ(gathered.read(), blocks(ranks()));
      gate = true;
    }
    stream.synchronize();
    if (is_late) {
      EXPECT_EQ(before.values(), blocks(ranks()));
    }
    EXPECT_EQ(gathered.read(), blocks(ranks(), 5));
  });
}

// Later work of a stream finds all blocks, and may overwrite the input.
TEST_P(GpuCopies, AreDoneWhenAnyStreamGoesOn) {
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const GpuStream stream(cuda_, gpu(rank));
    std::deque<PinnedVector<float>> given, found;
    for (int round = 0; round < 4; ++round) {
      given.emplace_back(cuda_, gpu(rank), alone(rank, static_cast<float>(round)));
      found.emplace_back(cuda_, gpu(rank), all());
    }
    for (size_t round = 0; round < given.size(); ++round) {
      gathered.writeOn(stream, given[round]);
      ASSERT_HORING(gather(rank, gathered.data() + begin(rank), gathered.data(), stream));
      gathered.readOn(stream, found[round]);
    }
    stream.synchronize();
    for (size_t round = 0; round < found.size(); ++round)
      EXPECT_EQ(found[round].values(), blocks(ranks(), static_cast<float>(round))) << round;
  });
}

// With kernels of other streams, before and behind.
TEST_P(GpuCopies, KeepTheOrderOfCallsOnSeveralStreams) {
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> data(cuda_, gpu(rank), std::vector<float>(kCount, 1)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const GpuStream stream(cuda_, gpu(rank)), other(cuda_, gpu(rank));
    // Loads kernels and makes a plan.
    ASSERT_HORING(add(rank, data.data(), stream));
    stream.synchronize();
    data.write(std::vector<float>(kCount, 1));
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    ASSERT_HORING(add(rank, data.data(), stream));
    ASSERT_HORING(gather(rank, data.data(), gathered.data(), other));
    ASSERT_HORING(add(rank, data.data(), stream));
    EXPECT_FALSE(other.idle());
    gate = true;
    stream.synchronize();
    const auto size = static_cast<float>(ranks());
    EXPECT_EQ(gathered.read(), std::vector<float>(all(), size));
    EXPECT_EQ(data.read(), std::vector<float>(kCount, size * size));
  });
}

// One thread, all ranks, kernels in between.
TEST_P(GpuCopies, ComeInAGroup) {
  std::vector<std::unique_ptr<GpuVector<float>>> data, gathered;
  std::vector<std::unique_ptr<GpuStream>> streams;
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto index = static_cast<size_t>(rank);
    data.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), std::vector<float>(kCount, 1)));
    streams.push_back(std::make_unique<GpuStream>(cuda_, gpu(rank)));
    for (int round = 0; round < 3; ++round) {
      gathered.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), std::vector<float>(all())));
      ASSERT_HORING(gather(rank, data[index]->data(), gathered.back()->data(), *streams[index]));
      ASSERT_HORING(add(rank, data[index]->data(), *streams[index]));
    }
  }
  ASSERT_HORING(horingGroupEnd());
  for (const auto& stream : streams) stream->synchronize();
  for (size_t i = 0; i < gathered.size(); ++i) {
    float expected = 1;
    for (size_t round = 0; round < i % 3; ++round) expected *= static_cast<float>(ranks());
    EXPECT_EQ(gathered[i]->read(), std::vector<float>(all(), expected)) << i;
  }
}

// There kernels do it, which a replay needs no host for.
TEST_P(GpuCopies, AreNoPartOfGraphs) {
  std::barrier all_here(ranks());  // no thread may allocate or query while another thread records
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> mine(cuda_, gpu(rank), block(rank)),
        gathered(cuda_, gpu(rank), std::vector<float>(all()));
    const GpuStream stream(cuda_, gpu(rank));
    const CurrentGpu current(cuda_, gpu(rank));
    const bool records = ranks() <= GetParam().gpus;
    all_here.arrive_and_wait();
    const RecordedGraph graph(
        cuda_, stream,
        [&] {
          if (records) {
            EXPECT_HORING(gather(rank, mine.data(), gathered.data(), stream));
          } else {
            EXPECT_TRUE(refuses(gather(rank, mine.data(), gathered.data(), stream), horingInvalidUsage,
                                "records a graph"));
          }
        },
        RecordedGraph::kThreadLocal);
    all_here.arrive_and_wait();
    for (int replay = 0; records && replay < 2; ++replay) {
      gathered.write(std::vector<float>(all()));
      graph.launch();
      stream.synchronize();
      EXPECT_EQ(gathered.read(), blocks(ranks()));
    }
  });
}

constexpr Place kCopyPlaces[] = {{1, 1}, {3, 1}, {4, 2}, {2, 2}, {4, 4}};
INSTANTIATE_TEST_SUITE_P(Places, GpuCopies,
                         testing::ValuesIn(horing::test::firstUnderSanitizer(3, kCopyPlaces)));

class GpuCopyTrouble : public GpuKernelTrouble {
 protected:
  horingResult_t gather(int rank, size_t count, void* stream) {
    return horingAllGather(on(rank).data(), gatheredOn(rank).data(), count, horingFloat, comm(rank), stream);
  }
  const GpuVector<float>& gatheredOn(int rank) const { return rank == 0 ? gathered_0_ : gathered_1_; }
  const Setting bytes_{"HORING_TESTS_GPU_COPY_BYTES", "1"};
  const GpuVector<float> gathered_0_{cuda_, 0, std::vector<float>(16)},
      gathered_1_{cuda_, 1, std::vector<float>(16)};
};

TEST_F(GpuCopyTrouble, OfAPeerThatNeverComesIsNamedAtTheDeadlineAndHoldsNoStreamUp) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_TRUE(refuses(gather(0, 8, stream.get()), horingTimeout, "rank 1 never called all_gather launch #1"));
  stream.synchronize();
}

TEST_F(GpuCopyTrouble, OfAPeerThatEndsIsNamed) {
  begin();
  std::thread ends([&] { EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr))); });
  const GpuStream stream(cuda_, 0);
  EXPECT_TRUE(refuses(gather(0, 8, stream.get()), horingRemoteError, "rank 1"));
  ends.join();
  stream.synchronize();
}

TEST_F(GpuCopyTrouble, OfSizesThatDifferIsNamed) {
  begin();
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(
        refuses(gather(rank, rank == 0 ? 8 : 4, nullptr), horingInvalidUsage,
                "ranks disagree about launch #1: rank 0 called all_gather (8 x float32), rank 1 called "
                "all_gather (4 x float32)"));
  });
}

// The last rank to call copies for all, and launches the later work of all: on its own stream, if each thread has one.
TEST_F(GpuCopyTrouble, OfTheStreamOfAnotherThreadIsRefused) {
  begin();
  onEveryRank(2, [&](int rank) {
    const CurrentGpu current(cuda_, rank);
    const GpuStream stream(cuda_, rank), of_thread = GpuStream::ofThread(cuda_);
    EXPECT_TRUE(refuses(gather(rank, 8, of_thread.get()), horingInvalidUsage, "cudaStreamPerThread"));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(gather(rank, 8, stream.get()));
    EXPECT_HORING(add(rank, on(rank).data(), of_thread.get()));
    EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "what a group has behind them"));
    // It does not stick, and alone it is launched by its own thread.
    EXPECT_HORING(add(rank, on(rank).data(), of_thread.get()));
    of_thread.synchronize();
    stream.synchronize();
    EXPECT_EQ(gatheredOn(rank).read(), std::vector<float>(16, 2));
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 4));
  });
}

TEST_F(GpuCopyTrouble, IsNoneForMessagesInAGroup) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  expectMessagesBehind({0, 1}, [&](int rank, void* stream) { EXPECT_HORING(gather(rank, 8, stream)); });
  EXPECT_EQ(gathered_0_.read(), std::vector<float>(16, 1));
}

// A replay of the one would never meet the other.
TEST_F(GpuCopyTrouble, OfACallThatOneRankAloneRecordsEndsAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  const CurrentGpu current(cuda_, 1);
  const RecordedGraph graph(cuda_, other, [&] { EXPECT_HORING(gather(1, 8, other.get())); });
  EXPECT_TRUE(refuses(gather(0, 8, stream.get()), horingTimeout, "all_gather launch #1"));
  stream.synchronize();
}

// One is copied, and the other is for a kernel.
TEST_F(GpuCopyTrouble, OfCallsThatDifferIsNamedLongBeforeTheDeadline) {
  begin();
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(rank == 0 ? gather(0, 8, nullptr) : add(1, on_1_.data(), nullptr), horingInvalidUsage,
                        "rank 1 called all_reduce (8 x float32, sum)"));
  });
}

TEST_F(GpuCopyTrouble, OfTheDriverReachesAllRanksAndNoStreamWaits) {
  begin();
  cuda_.fail("cuMemcpyPeerAsync", 2, 1, 1);
  onEveryRank(2, [&](int rank) {
    const GpuStream stream(cuda_, rank);
    // The error of the rank that made the copies, or the report of it.
    EXPECT_NE(gather(rank, 8, stream.get()), horingSuccess);
    const std::string text = horingGetLastError(nullptr);
    EXPECT_NE(text.find("copying from GPU 1 to GPU 0: the CUDA driver says CUDA_ERROR_OUT_OF_MEMORY"),
              std::string::npos)
        << text;
    stream.synchronize();
  });
}

}  // namespace
