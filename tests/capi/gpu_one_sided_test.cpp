// Puts, signals and waits on streams of CUDA, with the driver of gpu_buffers_test.cpp. Windows are in memory of the host.
#include "gpu_one_sided.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "fake_cuda/fake_gpu.h"
#include "gpu_processes.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

// A rank's part of a window.
struct HostPart {
  HostPart(horingComm_t its_comm, size_t elements) : comm(its_comm), values(elements, -1) {
    EXPECT_HORING(horingCommWindowRegister(comm, values.data(), elements * sizeof(int32_t), &window,
                                           HORING_WIN_DEFAULT));
    EXPECT_NE(window, nullptr);
  }
  ~HostPart() { EXPECT_HORING(horingCommWindowDeregister(comm, window)); }
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;
  // Looks at all of them.
  testing::AssertionResult holdsFrom(int32_t first, size_t at, size_t count) const {
    return holds(values.data() + at, count, [&](size_t i) { return first + static_cast<int32_t>(i); });
  }

  horingComm_t comm;
  std::vector<int32_t> values;
  horingWindow_t window = nullptr;
};

// Three puts with three buffers each, and some: larger than a part of a put, of which there are two on the way.
constexpr size_t kCounts[] = {0, 1, 1021, (4 << 20) / sizeof(int32_t), (9 << 20) / sizeof(int32_t) + 5};
constexpr size_t kMost = kCounts[4];

class GpuOneSided : public GpuCollectives {
 protected:
  int next(int rank) const { return (rank + 1) % ranks(); }
  int previous(int rank) const { return (rank + ranks() - 1) % ranks(); }
  // Each rank has a GPU, so that kernels serve them.
  static int gpuOf(int rank) { return rank; }
};

// From each kind of memory, of what the stream wrote there right before; the wait comes first on every second rank.
TEST_P(GpuOneSided, PutsCarryWhatIsInTheirStreamBeforeThem) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 3 * kMost);
    const GpuStream putting(cuda_, gpu), waiting(cuda_, gpu);
    int32_t from = 0;
    for (const size_t count : kCounts) {
      from += 1000;
      const PinnedVector<int32_t> source(cuda_, gpu, numbers(count, from + rank)), nothing(cuda_, gpu, count),
          pinned(cuda_, gpu, count);
      const GpuVector<int32_t> on_gpu(cuda_, gpu, std::vector<int32_t>(count, -2));
      std::vector<int32_t> pageable(count, -2);
      const auto waitAll = [&] { EXPECT_HORING(await(previous(rank), 3, comm, waiting.get())); };
      if (rank % 2 == 0) waitAll();
      std::atomic<bool> gate{false}, is_past{false};
      putting.waitFor(gate);
      on_gpu.writeOn(putting, source);
      on_gpu.readOn(putting, pinned);
      EXPECT_HORING(put(on_gpu.data(), count, next(rank), part.window, 0, comm, putting));
      EXPECT_HORING(put(pinned.data(), count, next(rank), part.window, kMost, comm, putting));
      EXPECT_HORING(put(pageable.data(), count, next(rank), part.window, 2 * kMost, comm, putting));
      // The buffers may be used again behind the puts.
      on_gpu.writeOn(putting, nothing);
      on_gpu.readOn(putting, pinned);
      putting.set(is_past);
      if (rank % 2 != 0) waitAll();
      std::iota(pageable.begin(), pageable.end(), from + rank);
      meet(comm);
      EXPECT_FALSE(waiting.idle());
      EXPECT_FALSE(is_past);
      meet(comm);
      gate = true;
      waiting.synchronize();
      for (size_t kind = 0; kind < 3; ++kind)
        EXPECT_TRUE(part.holdsFrom(from + previous(rank), kind * kMost, count))
            << count << " of kind " << kind;
      putting.synchronize();
      meet(comm);
    }
  });
}

// A wait holds its own stream back, not those of others, and collectives go on beside it.
TEST_P(GpuOneSided, OperationsOfOtherStreamsAndCollectivesGoOnBesideAWait) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 1000);
    const GpuStream waiting(cuda_, gpu), other(cuda_, gpu);
    const GpuVector<float> sum(cuda_, gpu, std::vector<float>(1000, 1)),
        late(cuda_, gpu, std::vector<float>(1000, 1));
    const GpuVector<int32_t> sent(cuda_, gpu, numbers(1000, rank));
    EXPECT_HORING(await(previous(rank), 2, comm, waiting.get()));
    // Behind the wait on its stream, and called before what the peers need to get there.
    const auto add = [&](const GpuVector<float>& data, const GpuStream& stream) {
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), 1000, horingFloat, horingSum, comm, stream.get()));
    };
    EXPECT_HORING(signal(next(rank), comm, other));
    add(sum, other);
    other.synchronize();
    EXPECT_EQ(sum.read(), std::vector<float>(1000, static_cast<float>(ranks())));
    meet(comm);
    EXPECT_FALSE(waiting.idle()) << "one signal of two";
    meet(comm);
    EXPECT_HORING(put(sent.data(), 1000, next(rank), part.window, 0, comm, other));
    add(late, waiting);
    waiting.synchronize();
    EXPECT_TRUE(part.holdsFrom(previous(rank), 0, 1000));
    EXPECT_EQ(late.read(), std::vector<float>(1000, static_cast<float>(ranks())));
    meet(comm);
  });
}

// The signals come when the ranks have been in the collective, which each calls behind its wait.
TEST_P(GpuOneSided, GoOnBesideACollectiveThatIsCompleteOnReturn) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    const GpuStream stream(cuda_, gpu), other(cuda_, gpu);
    const GpuVector<float> sum(cuda_, gpu, std::vector<float>(1000, 1));
    EXPECT_HORING(await(previous(rank), 1, comm, stream.get()));
    EXPECT_HORING(horingAllReduce(sum.data(), sum.data(), 1000, horingFloat, horingSum, comm, nullptr));
    EXPECT_HORING(signal(next(rank), comm, other));
    stream.synchronize();
    EXPECT_EQ(sum.read(), std::vector<float>(1000, static_cast<float>(ranks())));
    meet(comm);
  });
}

// Rank 1 joins the collective when it has the put that rank 0 has called behind it.
TEST_P(GpuOneSided, GoOnBesideACollectiveOnAStreamOfTheLibrary) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 1000);
    const GpuStream stream(cuda_, gpu);
    const GpuVector<int32_t> sent(cuda_, gpu, numbers(1000, rank));
    const GpuVector<float> sum(cuda_, gpu, std::vector<float>(1000, 1));
    horingStream_t own = nullptr;
    EXPECT_HORING(horingStreamCreate(&own));
    const auto add = [&] {
      EXPECT_HORING(horingAllReduce(sum.data(), sum.data(), 1000, horingFloat, horingSum, comm, own));
    };
    add();  // what kernels need at first they agree on
    EXPECT_HORING(horingStreamSynchronize(own));
    if (rank == 0) add();
    EXPECT_HORING(put(sent.data(), 1000, next(rank), part.window, 0, comm, stream));
    EXPECT_HORING(await(previous(rank), 1, comm, stream.get()));
    stream.synchronize();
    EXPECT_TRUE(part.holdsFrom(previous(rank), 0, 1000));
    if (rank != 0) add();
    EXPECT_HORING(horingStreamSynchronize(own));
    EXPECT_HORING(horingStreamDestroy(own));
    EXPECT_EQ(sum.read(), std::vector<float>(1000, static_cast<float>(ranks() * ranks())));
    meet(comm);
  });
}

// The collective is called first, and its stream waits for the signal, which comes when the peer has this rank's put.
TEST_P(GpuOneSided, ACollectiveThatIsHeldBackHoldsNoPutBack) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 1000);
    const GpuStream behind(cuda_, gpu), other(cuda_, gpu);
    const GpuVector<float> sum(cuda_, gpu, std::vector<float>(1000, 1));
    const std::vector<int32_t> sent = numbers(1000, rank);
    std::atomic<bool> gate{false};
    behind.waitFor(gate);
    EXPECT_HORING(horingAllReduce(sum.data(), sum.data(), 1000, horingFloat, horingSum, comm, behind.get()));
    EXPECT_HORING(put(sent.data(), 1000, next(rank), part.window, 0, comm, other));
    EXPECT_HORING(await(previous(rank), 1, comm, other.get()));
    other.synchronize();
    EXPECT_TRUE(part.holdsFrom(previous(rank), 0, 1000));
    gate = true;
    behind.synchronize();
    EXPECT_EQ(sum.read(), std::vector<float>(1000, static_cast<float>(ranks())));
    meet(comm);
  });
}

// Buffers of large puts go around between streams.
TEST_P(GpuOneSided, LargePutsOfSeveralStreamsDoNotMix) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 4 * kMost);
    std::vector<std::unique_ptr<GpuStream>> streams;
    std::vector<std::unique_ptr<GpuVector<int32_t>>> sources;
    std::atomic<bool> gate{false};
    for (int i = 0; i < 4; ++i) {
      streams.push_back(std::make_unique<GpuStream>(cuda_, gpu));
      sources.push_back(std::make_unique<GpuVector<int32_t>>(cuda_, gpu, numbers(kMost, 1000 * i + rank)));
      if (i == 1) streams.back()->waitFor(gate);  // those behind it need its buffers
      EXPECT_HORING(put(sources.back()->data(), kMost, next(rank), part.window,
                        static_cast<size_t>(i) * kMost, comm, *streams.back()));
    }
    gate = true;
    EXPECT_HORING(await(previous(rank), 4, comm, nullptr));
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(part.holdsFrom(1000 * i + previous(rank), static_cast<size_t>(i) * kMost, kMost)) << i;
    for (const auto& stream : streams) stream->synchronize();
    meet(comm);
  });
}

// What a put carries tells its place. Behind the group come the waits.
TEST_P(GpuOneSided, OfAGroupStandWhereTheyAreCalledOnTheirStream) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 2000);
    const GpuStream stream(cuda_, gpu), waiting(cuda_, gpu);
    const GpuVector<float> before(cuda_, gpu, std::vector<float>(1000, 1)),
        behind(cuda_, gpu, std::vector<float>(1000, 1));
    const auto add = [&](const GpuVector<float>& data) {
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), 1000, horingFloat, horingSum, comm, stream.get()));
    };
    const auto putFloats = [&](const GpuVector<float>& data, size_t at) {
      EXPECT_HORING(put(reinterpret_cast<const int32_t*>(data.data()), 1000, next(rank), part.window, at,
                        comm, stream));
    };
    const auto arrived = [&](size_t at) {
      std::vector<float> floats(1000);
      std::memcpy(floats.data(), part.values.data() + at, 4000);
      return floats;
    };
    const std::vector<float> ones(1000, 1), sums(1000, static_cast<float>(ranks()));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(await(previous(rank), 1, comm, waiting.get()));
    EXPECT_HORING(horingGroupEnd());
    EXPECT_HORING(horingGroupStart());
    putFloats(before, 0);
    add(before);
    EXPECT_HORING(horingGroupEnd());
    waiting.synchronize();
    EXPECT_EQ(arrived(0), ones);
    EXPECT_HORING(await(previous(rank), 1, comm, waiting.get()));
    EXPECT_HORING(horingGroupStart());
    add(behind);
    putFloats(behind, 1000);
    EXPECT_HORING(horingGroupEnd());
    stream.synchronize();
    waiting.synchronize();
    EXPECT_EQ(before.read(), sums);
    EXPECT_EQ(arrived(1000), sums);
    meet(comm);
  });
}

// On whatever streams: a signal does not pass a put, and a reply goes out when the question is here.
TEST_P(GpuOneSided, OfAGroupKeepTheirOrderOnSeveralStreams) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    HostPart part(comm, 2000);
    const GpuStream putting(cuda_, gpu), signalling(cuda_, gpu), waiting(cuda_, gpu);
    const std::vector<int32_t> question = numbers(1000, 7 * rank);
    std::atomic<bool> gate{false};
    putting.waitFor(gate);
    EXPECT_HORING(await(previous(rank), 2, comm, waiting.get()));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(put(question.data(), 1000, next(rank), part.window, 0, comm, putting));
    EXPECT_HORING(signal(next(rank), comm, signalling));
    EXPECT_HORING(horingGroupEnd());
    for (int round = 0; round < 20; ++round) meet(comm);
    EXPECT_FALSE(signalling.idle());
    EXPECT_FALSE(waiting.idle());
    meet(comm);  // before any rank lets its put go
    gate = true;
    waiting.synchronize();
    EXPECT_TRUE(part.holdsFrom(7 * previous(rank), 0, 1000));
    meet(comm);
    std::fill(part.values.begin(), part.values.end(), -1);
    meet(comm);
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(put(question.data(), 1000, next(rank), part.window, 0, comm, putting));
    EXPECT_HORING(await(previous(rank), 1, comm, waiting.get()));
    EXPECT_HORING(put(part.values.data(), 1000, previous(rank), part.window, 1000, comm, signalling));
    EXPECT_HORING(await(next(rank), 1, comm, putting.get()));
    EXPECT_HORING(horingGroupEnd());
    putting.synchronize();
    EXPECT_TRUE(part.holdsFrom(7 * rank, 1000, 1000)) << "what comes back";
    for (const GpuStream* const each : {&signalling, &waiting}) each->synchronize();
    meet(comm);
  });
}

// Rank 1 signals when it has been in the collective that rank 0 has behind its wait, on the same stream.
TEST_P(GpuOneSided, WaitsComeLastInAGroup) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    const GpuStream stream(cuda_, gpu);
    const GpuVector<float> sum(cuda_, gpu, std::vector<float>(1000, 1));
    EXPECT_HORING(horingGroupStart());
    if (rank == 0) {
      EXPECT_HORING(await(1, 1, comm, stream.get()));
    }
    EXPECT_HORING(horingAllReduce(sum.data(), sum.data(), 1000, horingFloat, horingSum, comm, stream.get()));
    EXPECT_HORING(horingGroupEnd());
    if (rank == 1) {
      EXPECT_HORING(signal(0, comm, stream));
    }
    stream.synchronize();
    meet(comm);
  });
}

TEST_P(GpuOneSided, OneThreadDrivesSeveralRanksInAGroup) {
  std::vector<std::unique_ptr<HostPart>> parts(static_cast<size_t>(ranks()));
  onEveryRank(ranks(), [&](int rank) {
    parts[static_cast<size_t>(rank)] = std::make_unique<HostPart>(comm(rank), 2000);
  });
  std::vector<std::unique_ptr<GpuStream>> streams;
  std::vector<std::unique_ptr<GpuVector<int32_t>>> sources;
  std::vector<std::unique_ptr<GpuVector<float>>> sums;
  for (int rank = 0; rank < ranks(); ++rank) {
    streams.push_back(std::make_unique<GpuStream>(cuda_, gpuOf(rank)));
    sources.push_back(std::make_unique<GpuVector<int32_t>>(cuda_, gpuOf(rank), numbers(1000, rank)));
    sums.push_back(std::make_unique<GpuVector<float>>(cuda_, gpuOf(rank), std::vector<float>(1000, 1)));
  }
  EXPECT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    const auto putInto = [&](size_t at) {
      EXPECT_HORING(put(sources[r]->data(), 1000, next(rank), parts[r]->window, at, comm(rank), *streams[r]));
    };
    // Not all ranks have the same before and behind their collective.
    if (rank % 2 == 0) putInto(0);
    EXPECT_HORING(horingAllReduce(sums[r]->data(), sums[r]->data(), 1000, horingFloat, horingSum, comm(rank),
                                  streams[r]->get()));
    if (rank % 2 != 0) putInto(0);
    EXPECT_HORING(await(previous(rank), 1, comm(rank), streams[r]->get()));
    putInto(1000);
  }
  EXPECT_HORING(horingGroupEnd());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    streams[r]->synchronize();
    EXPECT_EQ(sums[r]->read(), std::vector<float>(1000, static_cast<float>(ranks())));
    EXPECT_HORING(await(previous(rank), 1, comm(rank), nullptr));
    for (const size_t at : {size_t{0}, size_t{1000}})
      EXPECT_TRUE(parts[r]->holdsFrom(previous(rank), at, 1000)) << "rank " << rank;
  }
}

// Puts from memory of a GPU that come behind a wait take nothing from those that the others wait for.
TEST_P(GpuOneSided, APutThatIsHeldBackHoldsNoOtherBack) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    ASSERT_HORING(horingCommSetTimeout(comm, 60'000));
    HostPart part(comm, 2 * kMost);
    const GpuStream held(cuda_, gpu), other(cuda_, gpu);
    const GpuVector<int32_t> first(cuda_, gpu, numbers(kMost, rank)),
        second(cuda_, gpu, numbers(kMost, 9 + rank));
    EXPECT_HORING(await(previous(rank), 1, comm, held.get()));
    EXPECT_HORING(put(second.data(), kMost, next(rank), part.window, kMost, comm, held));
    EXPECT_HORING(put(first.data(), kMost, next(rank), part.window, 0, comm, other));
    EXPECT_HORING(await(previous(rank), 1, comm, other.get()));
    for (const GpuStream* const each : {&held, &other}) each->synchronize();
    EXPECT_TRUE(part.holdsFrom(previous(rank), 0, kMost));
    EXPECT_TRUE(part.holdsFrom(9 + previous(rank), kMost, kMost));
    meet(comm);
  });
}

constexpr Way kGpuWays[] = {{"loopback", Meeting::kInitAll, "shm,socket", "auto", 1},
                            {"loopback", Meeting::kInitAll, "shm,socket", "auto", 3},
                            {"loopback", Meeting::kInitAll, "shm,socket", "auto", 3, true},
                            {"shm", Meeting::kInitRank, "shm", "auto", 2},
                            {"both", Meeting::kInitRank, "shm,socket", "auto", 4},
                            {"socket", Meeting::kInitRank, "socket", "auto", 2, true}};
INSTANTIATE_TEST_SUITE_P(Ways, GpuOneSided, testing::ValuesIn(kGpuWays));

// Two ranks with a window of 1000 elements, each on its GPU.
class GpuOneSidedTrouble : public GpuKernelTrouble {
 protected:
  void SetUp() override {
    GpuKernelTrouble::SetUp();
    makeWindows(makeCommunicators(2, Meeting::kInitRank));
  }
  void makeWindows(std::vector<horingComm_t> comms) {
    for (const horingComm_t each : comms_) EXPECT_HORING(horingCommAbort(each));
    comms_ = std::move(comms);
    onEveryRank(2, [&](int rank) {
      ASSERT_HORING(horingCommWindowRegister(comm(rank), values_[rank], sizeof values_[rank], &windows_[rank],
                                             HORING_WIN_DEFAULT));
    });
  }
  void TearDown() override {
    for (int rank = 0; rank < 2; ++rank)
      if (comm(rank) && asyncError(rank) == horingSuccess) {
        EXPECT_HORING(horingCommWindowDeregister(comm(rank), windows_[rank]));
      }
    GpuKernelTrouble::TearDown();
  }
  horingResult_t putInto(int rank, const void* data, const GpuStream& stream) {
    return put(static_cast<const int32_t*>(data), 1000, 1 - rank, windows_[rank], 0, comm(rank), stream);
  }
  // What the rank's calls say after an error.
  testing::AssertionResult says(int rank, horingResult_t code, const char* text) {
    return refuses(horingSignal(1 - rank, 0, 0, 0, comm(rank), nullptr), code, text);
  }

  int32_t values_[2][1000] = {};
  horingWindow_t windows_[2] = {};
  const std::vector<int32_t> data_ = std::vector<int32_t>(1000, 5);
};

// What docs/semantics.md says of ranks without a window.
class GpuFirstSignals : public GpuKernelTrouble {
 protected:
  void meet() override { comms_ = makeCommunicators(2, Meeting::kInitRank); }
};

TEST_F(GpuFirstSignals, AreCompleteOnceTheirTargetMakesAOneSidedCall) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  EXPECT_HORING(signal(1, comm(0), stream));
  onEveryRank(2, [&](int rank) { ::meet(comm(rank)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(stream.idle());
  EXPECT_HORING(await(0, 1, comm(1), other.get()));
  stream.synchronize();
  other.synchronize();
}

TEST_F(GpuFirstSignals, AreNamedAtTheDeadlineIfTheirTargetMakesNone) {
  begin();
  const GpuStream stream(cuda_, 0);
  ASSERT_HORING(horingCommSetTimeout(comm(0), 300));
  EXPECT_HORING(signal(1, comm(0), stream));
  stream.synchronize();
  EXPECT_EQ(asyncError(0), horingTimeout);
  EXPECT_TRUE(refuses(horingSignal(1, 0, 0, 0, comm(0), nullptr), horingTimeout, "rank 1"));
  EXPECT_EQ(heardError(1), horingTimeout);
}

TEST_F(GpuOneSidedTrouble, IsNoneForASignalToARankThatIsElsewhere) {
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(signal(1, comm(0), stream));
  stream.synchronize();
  EXPECT_EQ(asyncError(0), horingSuccess);
}

TEST_F(GpuOneSidedTrouble, OfAWaitWithoutASignalIsNamedAtTheDeadlineAndFreesTheStream) {
  const GpuStream stream(cuda_, 0);
  ASSERT_HORING(horingCommSetTimeout(comm(0), 300));
  EXPECT_HORING(await(1, 1, comm(0), stream.get()));
  EXPECT_HORING(await(1, 1, comm(0), stream.get()));
  stream.synchronize();
  EXPECT_EQ(asyncError(0), horingTimeout);
  EXPECT_TRUE(says(0, horingTimeout, "waits for a message from rank 1"));
  EXPECT_EQ(heardError(1), horingTimeout);
}

TEST_F(GpuOneSidedTrouble, OfAStreamThatIsHeldUpIsNamedAtTheDeadline) {
  const GpuStream stream(cuda_, 0), other(cuda_, 0);
  ASSERT_HORING(horingCommSetTimeout(comm(0), 300));
  std::atomic<bool> gate{false};
  stream.waitFor(gate);
  EXPECT_HORING(signal(1, comm(0), stream));
  EXPECT_HORING(signal(1, comm(0), stream));
  while (asyncError(0) == horingSuccess) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(says(0, horingTimeout, "its stream on GPU 0 did not reach this operation in time"));
  EXPECT_HORING(horingCommDestroy(std::exchange(comms_[0], nullptr))) << "while it is held up";
  gate = true;
  stream.synchronize();
}

TEST_F(GpuOneSidedTrouble, AnAbortFromAnotherThreadEndsAWait) {
  const GpuStream stream(cuda_, 0), held(cuda_, 0);
  std::atomic<bool> gate{false};
  held.waitFor(gate);
  const GpuVector<int32_t> on_gpu(cuda_, 0, data_);
  EXPECT_HORING(await(1, 1, comm(0), stream.get()));
  EXPECT_HORING(putInto(0, on_gpu.data(), stream));
  EXPECT_HORING(putInto(0, on_gpu.data(), held));
  EXPECT_FALSE(stream.idle());
  std::thread([&] { EXPECT_HORING(horingCommAbort(std::exchange(comms_[0], nullptr))); }).join();
  stream.synchronize();
  gate = true;
  held.synchronize();
}

TEST_F(GpuOneSidedTrouble, OfARankThatLeavesEndsAWait) {
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(await(1, 1, comm(0), stream.get()));
  EXPECT_HORING(horingCommWindowDeregister(comm(1), windows_[1]));
  EXPECT_HORING(horingCommDestroy(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  EXPECT_NE(asyncError(0), horingSuccess);
  EXPECT_TRUE(says(0, asyncError(0), "rank 1"));
}

// The thread that moves messages also waits for GPUs: what ends messages ends that, too.
TEST_F(GpuOneSidedTrouble, OfAnArrivingPutIsNamedWhileAKernelWaits) {
  makeWindows(makeThreads(cuda_, 2));
  ASSERT_HORING(horingCommSetTimeout(comm(0), 10'000));
  onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
  const GpuStream stream(cuda_, 0), of_peer(cuda_, 1);
  EXPECT_HORING(signal(0, comm(0), stream));
  EXPECT_HORING(await(0, 1, comm(0), stream.get()));
  stream.synchronize();
  EXPECT_HORING(horingCommWindowDeregister(comm(0), windows_[0]));
  horingStream_t own = nullptr;
  EXPECT_HORING(horingStreamCreate(&own));
  EXPECT_HORING(add(0, on(0).data(), own));
  EXPECT_HORING(putInto(1, data_.data(), of_peer));
  EXPECT_EQ(horingStreamSynchronize(own), horingInvalidUsage);
  EXPECT_HORING(horingStreamDestroy(own));
  EXPECT_TRUE(says(0, horingInvalidUsage, "rank 0 does not take a put of rank 1"));
  EXPECT_EQ(heardError(1), horingRemoteError);
}
TEST_F(GpuOneSidedTrouble, OfAWaitIsNamedAtItsDeadlineWhileACallWaitsForAGpu) {
  for (const char* const path : {"auto", "staged"}) {
    const Setting gpu_path("HORING_GPU_PATH", path);
    makeWindows(makeThreads(cuda_, 2));
    onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
    const GpuStream stream(cuda_, 0), legacy = GpuStream::ofDefault(cuda_);
    ASSERT_HORING(horingCommSetTimeout(comm(0), 1000));
    EXPECT_HORING(await(1, 1, comm(0), stream.get()));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it has begun
    ASSERT_HORING(horingCommSetTimeout(comm(0), 20'000));
    const CurrentGpu current(cuda_, 0);
    std::atomic<bool> gate{false};
    legacy.waitFor(gate);
    EXPECT_TRUE(refuses(add(0, on(0).data(), nullptr), horingTimeout, "waits for a message from rank 1"))
        << path;
    gate = true;
    legacy.synchronize();
    stream.synchronize();
  }
}

// More than the connection holds, into a window of a rank that is in no call. It takes that when it hears of the wait.
TEST_F(GpuOneSidedTrouble, OfRoomReachesARankThatIsElsewhereWhileACallWaitsForAGpu) {
  for (const char* const path : {"auto", "staged"}) {
    const Setting gpu_path("HORING_GPU_PATH", path);
    makeWindows(makeThreads(cuda_, 2));
    std::vector<std::unique_ptr<HostPart>> parts(2);
    onEveryRank(2, [&](int rank) {
      parts[static_cast<size_t>(rank)] = std::make_unique<HostPart>(comm(rank), kMost);
      EXPECT_HORING(add(rank, on(rank).data(), nullptr));
    });
    const std::vector<int32_t> sent = numbers(kMost, 3);
    const GpuStream stream(cuda_, 0), legacy = GpuStream::ofDefault(cuda_);
    std::atomic<bool> gate{false}, put_gate{false};
    const CurrentGpu current(cuda_, 0);
    legacy.waitFor(gate);
    stream.waitFor(put_gate);
    EXPECT_HORING(put(sent.data(), kMost, 1, parts[0]->window, 0, comm(0), stream));
    std::thread call([&] {
      const CurrentGpu of_call(cuda_, 0);
      EXPECT_HORING(add(0, on(0).data(), nullptr));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it waits
    put_gate = true;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!stream.idle() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(stream.idle()) << "the put waits for a call of its target, " << path;
    gate = true;
    EXPECT_HORING(add(1, on(1).data(), nullptr));
    call.join();
    EXPECT_HORING(await(0, 1, comm(1), nullptr));
    EXPECT_TRUE(parts[1]->holdsFrom(3, 0, kMost));
    onEveryRank(2, [&](int rank) { parts[static_cast<size_t>(rank)] = nullptr; });
  }
}

// At each call of the driver of a put from memory of a GPU.
TEST_F(GpuOneSidedTrouble, OfTheDriverFreesTheStreamAndReachesThePeer) {
  for (const auto& [function, successes] : {std::pair("cuStreamWriteValue32", 0),
                                            {"cuStreamWriteValue32", 1},
                                            {"cuStreamWaitValue32", 0},
                                            {"cuMemcpyAsync", 0},
                                            {"cuMemHostAlloc", 0}}) {
    makeWindows(makeCommunicators(2, Meeting::kInitRank));
    const GpuStream stream(cuda_, 0);
    const GpuVector<int32_t> on_gpu(cuda_, 0, data_);
    EXPECT_HORING(signal(0, comm(0), stream)) << "what is made once";
    stream.synchronize();
    cuda_.fail(function, 999, successes);
    const horingResult_t result = putInto(0, on_gpu.data(), stream);
    cuda_.fail(nullptr, 0);
    EXPECT_EQ(result, horingUnhandledCudaError) << function << " after " << successes;
    EXPECT_EQ(heardError(1), horingRemoteError) << function << " after " << successes;
    stream.synchronize();
  }
}

TEST_F(GpuOneSidedTrouble, IsNamedWhereACallIsWrong) {
  const GpuStream stream(cuda_, 0), of_other(cuda_, 1);
  const GpuVector<int32_t> here(cuda_, 0, data_), there(cuda_, 1, data_);
  EXPECT_TRUE(refuses(putInto(0, there.data(), stream), horingInvalidUsage, "is memory of GPU 1"));
  EXPECT_HORING(putInto(0, here.data(), stream));
  EXPECT_TRUE(refuses(signal(1, comm(0), of_other), horingInvalidUsage, "works on GPU 0"));
  EXPECT_TRUE(
      refuses(horingPutSignal(here.data(), 1, horingInt32, 1, windows_[0], 0, 0, 0, 0, comm(0), nullptr),
              horingInvalidUsage, "is memory of GPU 0"));
  // Places that a group cannot give them.
  const auto refusesGroup = [&](const char* why, const auto& call) {
    EXPECT_HORING(horingGroupStart());
    call();
    EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, why));
  };
  refusesGroup("on a stream of CUDA and others on none", [&] {
    EXPECT_HORING(signal(1, comm(0), stream));
    EXPECT_HORING(horingSignal(1, 0, 0, 0, comm(0), nullptr));
  });
  refusesGroup("behind a collective", [&] {
    EXPECT_HORING(add(0, on(0).data(), stream.get()));
    EXPECT_HORING(signal(1, comm(0), stream));
    EXPECT_HORING(add(0, on(0).data(), stream.get()));
  });
  refusesGroup("behind a collective", [&] {
    EXPECT_HORING(horingSend(on(0).data(), 8, horingFloat, 1, comm(0), stream.get()));
    EXPECT_HORING(add(0, on(0).data(), stream.get()));
    EXPECT_HORING(signal(1, comm(0), stream));
  });
  refusesGroup("behind a wait", [&] {
    const GpuStream waiting(cuda_, 0);
    EXPECT_HORING(await(1, 1, comm(0), waiting.get()));
    EXPECT_HORING(signal(1, comm(0), stream));
    EXPECT_HORING(add(0, on(0).data(), stream.get()));
  });
  const CurrentGpu current(cuda_, 0);
  const RecordedGraph graph(cuda_, stream, [&] {
    EXPECT_TRUE(refuses(signal(1, comm(0), stream), horingInvalidUsage, "records a graph"));
  });
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(signal(1, comm(0), stream));
  const RecordedGraph begun_since(
      cuda_, stream, [&] { EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "records a graph")); });
  EXPECT_HORING(await(0, 1, comm(1), nullptr));
  EXPECT_EQ(values_[1][999], 5);
  stream.synchronize();
}

// Where a driver that pins memory waits for streams, and the stream for the operation, neither would end.
TEST_F(GpuOneSidedTrouble, OfPinningWhileStreamsWaitIsAvoidedForSignals) {
  const GpuStream summing(cuda_, 0), stream(cuda_, 0), of_peer(cuda_, 1);
  EXPECT_HORING(add(0, on(0).data(), summing.get())) << "the first operation on a GPU";
  const int pinned = cuda_.calls("cuMemHostAlloc");
  EXPECT_HORING(await(1, 1, comm(0), stream.get()));
  const int signals = horing::test::kSanitizer ? 500 : 3800;
  for (int i = 0; i < signals; ++i) ASSERT_HORING(signal(0, comm(0), stream));
  EXPECT_FALSE(summing.idle());
  EXPECT_FALSE(stream.idle());
  EXPECT_EQ(cuda_.calls("cuMemHostAlloc"), pinned);
  EXPECT_HORING(signal(0, comm(1), of_peer));
  EXPECT_HORING(add(1, on(1).data(), of_peer.get()));
  for (const GpuStream* const each : {&summing, &stream, &of_peer}) each->synchronize();
  EXPECT_HORING(await(0, signals, comm(0), nullptr));
}

// Pinned memory of puts from memory of a GPU, and no memory of a GPU.
TEST_F(GpuOneSidedTrouble, OfMemoryIsSmall) {
  const Setting path("HORING_GPU_PATH", "staged");
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitRank);
  const GpuStream stream(cuda_, 0);
  const auto bytes = [&] {
    uint64_t all = 0;
    EXPECT_HORING(horingCommMemoryBytes(comms[0], &all));
    return all;
  };
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[0], nullptr));
  const uint64_t before = bytes();
  EXPECT_HORING(signal(0, comms[0], stream));
  const uint64_t with_marks = bytes();
  EXPECT_LE(with_marks, before + 16 * 4096) << "for marks, at once";
  for (int i = 0; i < 100; ++i) EXPECT_HORING(signal(0, comms[0], stream));
  EXPECT_HORING(await(0, 102, comms[0], stream.get()));
  stream.synchronize();
  EXPECT_EQ(bytes(), with_marks) << "of signals";
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

// Each process a rank with its GPU.
class GpuOneSidedProcesses : public GpuProcesses {
 protected:
  void join(const Membership& membership) override {
    GpuProcesses::join(membership);
    EXPECT_HORING(
        horingCommWindowRegister(comm_, values_.data(), values_.size() * 4, &window_, HORING_WIN_DEFAULT));
  }
  void putAround() {
    const int ranks = me_.ranks, next = (me_.rank + 1) % ranks, previous = (me_.rank + ranks - 1) % ranks;
    const GpuStream stream(cuda_, me_.rank), waiting(cuda_, me_.rank);
    for (int round = 0; round < 3; ++round) {
      const GpuVector<int32_t> data(cuda_, me_.rank, numbers(kMost, 100 * round + me_.rank));
      EXPECT_HORING(await(previous, 1, comm_, waiting.get()));
      EXPECT_HORING(put(data.data(), kMost, next, window_, 0, comm_, stream));
      waiting.synchronize();
      EXPECT_TRUE(holds(values_.data(), kMost, [&](size_t i) {
        return 100 * round + previous + static_cast<int32_t>(i);
      })) << round;
      meet(comm_);
    }
    EXPECT_HORING(horingCommWindowDeregister(comm_, window_));
  }
  std::vector<int32_t> values_ = std::vector<int32_t>(kMost, -1);
  horingWindow_t window_ = nullptr;
};

TEST_F(GpuOneSidedProcesses, DISABLED_PutAround) {
  join(Membership::fromEnvironment());
  putAround();
}
TEST_F(GpuOneSidedProcesses, PutAround) {
  host("GpuOneSidedProcesses.DISABLED_PutAround", 3);
  putAround();
  expectOthersEndWell();
}

TEST_F(GpuOneSidedProcesses, DISABLED_Wait) {
  join(Membership::fromEnvironment());
  const GpuStream stream(cuda_, me_.rank);
  EXPECT_HORING(signal(0, comm_, stream));
  EXPECT_HORING(await(0, 1, comm_, stream.get()));
  stream.synchronize();  // for ever
}
TEST_F(GpuOneSidedProcesses, AKilledOneIsNamedByAWaitForIt) {
  host("GpuOneSidedProcesses.DISABLED_Wait");
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(await(1, 1, comm_, stream.get()));
  stream.synchronize();
  EXPECT_HORING(await(1, 1, comm_, stream.get()));
  EXPECT_FALSE(stream.idle());
  others_.front()->kill();
  stream.synchronize();
  EXPECT_TRUE(refuses(signal(1, comm_, stream), horingRemoteError, "rank 1"));
  EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr)));
}

}  // namespace
