// Operations on GPUs by kernels: the driver is the fake one, and kernels are the engine's, run on threads of the host. With
// HORING_TESTS_ON_GPU in the environment, on real GPUs.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "../temporary_folder.h"
#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::firstUnderSanitizer;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

// Where the ranks of a communicator are. `transports`: every rank is a node, and they are linked by these; kById: all are threads of one
// process that met by an ID; null: all are threads of one process and were made together.
constexpr const char* kById = "by ID";
struct Place {
  int ranks;
  int gpus;
  const char* transports = nullptr;
  const char* algorithm = "auto";
  const char* proxies = "0";
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.ranks << " ranks on " << place.gpus << " GPUs";
  if (place.transports) *out << (place.transports == kById ? ", " : ", nodes over ") << place.transports;
  if (place.algorithm != std::string("auto")) *out << ", " << place.algorithm;
  if (place.proxies != std::string("0")) *out << ", " << place.proxies << " proxies";
}

class GpuKernels : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (FakeCuda::isReal() && cuda_.gpus() == 0) GTEST_SKIP() << "no GPU here";
    // Threads that share a GPU share its context, where who frees memory waits for kernels that wait for him.
    if (GetParam().transports && cuda_.gpus() < ranks()) GTEST_SKIP() << "fewer GPUs here than processes";
    ASSERT_TRUE(cuda_.loaded());
    cuda_.setKernels(&horing::test::emulatedKernels());
    const Setting algorithm("HORING_ALGO", GetParam().algorithm),
        proxies("HORING_TESTS_GPU_PROXIES", GetParam().proxies);
    comms_ = areNodes()  ? makeNodes(ranks(), GetParam().transports)
             : metById() ? makeThreads(cuda_, ranks())
                         : makeCommunicators(ranks(), Meeting::kInitAll);
    // Whatever goes through the host needs pinned memory for its pieces.
    cuda_.fail("cuStreamWaitValue32", 999);
  }
  void TearDown() override {
    if (cuda_.loaded()) cuda_.fail(nullptr, 0);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    if (cuda_.loaded()) cuda_.setKernels(nullptr);
  }
  bool metById() const { return GetParam().transports == kById; }
  bool areNodes() const { return GetParam().transports && !metById(); }
  int ranks() const { return GetParam().ranks; }
  size_t size() const { return static_cast<size_t>(ranks()); }
  int gpu(int rank) const { return rank % std::min(GetParam().gpus, cuda_.gpus()); }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // Carries `call` out on memory of the host, then by kernels, on a stream of CUDA and without: it must leave the same.
  template <typename Call>
  void expectSame(int rank, size_t sends, size_t receives, const Call& call) const {
    const std::vector<float> send = filled(rank, sends), before(receives, -7);
    std::vector<float> expected = before;
    ASSERT_HORING(call(send.data(), expected.data(), nullptr));
    const GpuVector<float> gpu_send(cuda_, gpu(rank), send), gpu_receive(cuda_, gpu(rank), before);
    const GpuStream stream(cuda_, gpu(rank));
    ASSERT_HORING(call(gpu_send.data(), gpu_receive.data(), stream.get()));
    stream.synchronize();
    EXPECT_EQ(gpu_receive.read(), expected) << "on a stream of CUDA";
    gpu_receive.write(before);
    ASSERT_HORING(call(gpu_send.data(), gpu_receive.data(), nullptr));
    EXPECT_EQ(gpu_receive.read(), expected) << "complete on return";
    EXPECT_EQ(gpu_send.read(), send);
  }

  const FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
};

#ifdef HORING_TEST_TSAN  // where each thread of a GPU is one of the system
constexpr size_t kSizes[] = {0, 1, 1000};
#else
constexpr size_t kSizes[] = {0, 1, 1000, 100'003};
#endif

TEST_P(GpuKernels, GiveWhatTheHostGives) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int root = ranks() - 1;
    for (const size_t n : kSizes) {
      const size_t all = n * size();
      expectSame(rank, n, n, [&](const float* send, float* receive, void* stream) {
        return horingAllReduce(send, receive, n, horingFloat, horingSum, comm, stream);
      });
      expectSame(rank, n, n, [&](const float* send, float* receive, void* stream) {
        return horingReduce(send, receive, n, horingFloat, horingMax, root, comm, stream);
      });
      expectSame(rank, all, n, [&](const float* send, float* receive, void* stream) {
        return horingReduceScatter(send, receive, n, horingFloat, horingAvg, comm, stream);
      });
      expectSame(rank, n, all, [&](const float* send, float* receive, void* stream) {
        return horingAllGather(send, receive, n, horingFloat, comm, stream);
      });
      expectSame(rank, n, n, [&](const float* send, float* receive, void* stream) {
        return horingBroadcast(send, receive, n, horingFloat, root, comm, stream);
      });
      expectSame(rank, n, all, [&](const float* send, float* receive, void* stream) {
        return horingGather(send, receive, n, horingFloat, root, comm, stream);
      });
      expectSame(rank, all, n, [&](const float* send, float* receive, void* stream) {
        return horingScatter(send, receive, n, horingFloat, root, comm, stream);
      });
      expectSame(rank, all, all, [&](const float* send, float* receive, void* stream) {
        return horingAlltoAll(send, receive, n, horingFloat, comm, stream);
      });
    }
  });
}

TEST_P(GpuKernels, GiveWhatTheHostGivesForBlocksThatDiffer) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    for (const size_t unit : {size_t{1}, size_t{700}}) {
      // Block 1 is empty; gaps between them, the last ones first.
      std::vector<size_t> counts, offsets(size());
      size_t all = 3;
      for (size_t r = 0; r < size(); ++r) counts.push_back(r == 1 ? 0 : unit * (r + 1));
      for (size_t r = size(); r-- > 0; all += counts[r] + 2) offsets[r] = all;
      const size_t own = counts[static_cast<size_t>(rank)];
      expectSame(rank, own, all, [&](const float* send, float* receive, void* stream) {
        return horingAllGatherV(send, own, receive, counts.data(), offsets.data(), horingFloat, comm, stream);
      });
      expectSame(rank, all, own, [&](const float* send, float* receive, void* stream) {
        return horingReduceScatterV(send, counts.data(), offsets.data(), receive, horingFloat, horingSum,
                                    comm, stream);
      });
      // In place.
      const size_t at = offsets[static_cast<size_t>(rank)];
      expectSame(rank, 0, all, [&](const float*, float* data, void* stream) {
        return horingAllGatherV(data + at, own, data, counts.data(), offsets.data(), horingFloat, comm,
                                stream);
      });
    }
  });
}

TEST_P(GpuKernels, GiveWhatTheHostGivesForBlocksInAnotherOrder) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const size_t n = 1001;
    expectSame(rank, n, n * size(), [&](const float* send, float* receive, void* stream) {
      return horingAllGatherOrdered(send, receive, n, horingFloat, horingRailMajor, comm, stream);
    });
    expectSame(rank, n * size(), n, [&](const float* send, float* receive, void* stream) {
      return horingReduceScatterOrdered(send, receive, n, horingFloat, horingSum, horingRailMajor, comm,
                                        stream);
    });
  });
}

TEST_P(GpuKernels, GiveWhatTheHostGivesForLists) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const std::vector<size_t> counts = {5, 0, 3000, 1, 17, 900, 2, 2, 2, 2};
    size_t all = 0;
    for (const size_t count : counts) all += count;
    // One after the other in one buffer.
    const auto in = [&](auto* data, size_t blocks) {
      std::vector<decltype(data)> entries;
      for (const size_t count : counts) {
        entries.push_back(data);
        data += count * blocks;
      }
      return entries;
    };
    const auto pointers = [](const std::vector<const float*>& entries) {
      return std::vector<const void*>(entries.begin(), entries.end());
    };
    const auto places = [](const std::vector<float*>& entries) {
      return std::vector<void*>(entries.begin(), entries.end());
    };
    expectSame(rank, all, all, [&](const float* send, float* receive, void* stream) {
      return horingAllReduceList(pointers(in(send, 1)).data(), places(in(receive, 1)).data(), counts.data(),
                                 counts.size(), horingFloat, horingSum, comm, stream);
    });
    expectSame(rank, all * size(), all, [&](const float* send, float* receive, void* stream) {
      return horingReduceScatterList(pointers(in(send, size())).data(), places(in(receive, 1)).data(),
                                     counts.data(), counts.size(), horingFloat, horingAvg, comm, stream);
    });
    expectSame(rank, all, all * size(), [&](const float* send, float* receive, void* stream) {
      return horingAllGatherList(pointers(in(send, 1)).data(), places(in(receive, size())).data(),
                                 counts.data(), counts.size(), horingFloat, comm, stream);
    });
  });
}

TEST_P(GpuKernels, TakeBuffersAtAnyElementAndInPlace) {
  onEveryRank(ranks(), [&](int rank) {
    const size_t n = 5001;
    for (const size_t shift : {size_t{1}, size_t{3}}) {
      const GpuVector<float> data(cuda_, gpu(rank), filled(rank, n + shift));
      const GpuStream stream(cuda_, gpu(rank));
      ASSERT_HORING(horingAllReduce(data.data() + shift, data.data() + shift, n, horingFloat, horingSum,
                                    comm(rank), stream.get()));
      stream.synchronize();
      const std::vector<float> sum = data.read();
      EXPECT_EQ(sum[0], element(rank, 0));
      for (size_t i = shift; i < n + shift; ++i) {
        float expected = 0;
        for (int r = 0; r < ranks(); ++r) expected += element(r, i);
        ASSERT_EQ(sum[i], expected) << i;
      }
    }
  });
}

TEST_P(GpuKernels, MultiplyByAScalar) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const size_t n = 5001;
    const std::vector<float> mine = filled(rank, n);
    std::vector<float> sum(n, 0);
    for (int r = 0; r < ranks(); ++r)
      for (size_t i = 0; i < n; ++i) sum[i] += static_cast<float>(r + 2) * element(r, i);
    const float factor = static_cast<float>(rank + 2);
    const GpuVector<float> data(cuda_, gpu(rank), mine), on_gpu(cuda_, gpu(rank), {99});
    const PinnedVector<float> pinned(cuda_, gpu(rank), std::vector<float>(1, 99));
    const PinnedVector<float> source(cuda_, gpu(rank), std::vector<float>(1, factor));
    const GpuVector<float> source_on_gpu(cuda_, gpu(rank), {factor});
    const GpuStream stream(cuda_, gpu(rank));
    float pageable = factor;
    struct Scalar {
      const char* where;
      float* at;
      horingScalarResidence_t residence;
    };
    const Scalar scalars[] = {{"at once", &pageable, horingScalarHostImmediate},
                              {"memory of the host", &pageable, horingScalarDevice},
                              {"pinned memory", pinned.data(), horingScalarDevice},
                              {"the GPU", on_gpu.data(), horingScalarDevice}};
    // At a time, ranks have theirs in different places.
    for (size_t i = 0; i < std::size(scalars); ++i) {
      const Scalar& scalar = scalars[(i + static_cast<size_t>(rank)) % std::size(scalars)];
      SCOPED_TRACE(scalar.where);
      horingRedOp_t op;
      ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.at, horingFloat, scalar.residence, comm));
      data.write(mine);
      if (scalar.at == on_gpu.data()) on_gpu.writeOn(stream, source);
      if (scalar.at == pinned.data()) source_on_gpu.readOn(stream, pinned);
      ASSERT_HORING(horingAllReduce(data.data(), data.data(), n, horingFloat, op, comm, stream.get()));
      stream.synchronize();
      EXPECT_EQ(data.read(), sum);
      ASSERT_HORING(horingRedOpDestroy(op, comm));
    }
  });
}

// Of two calls of a group, the first of which makes the scalar of the second. One kernel serves both, so that nothing else keeps them
// apart.
TEST_P(GpuKernels, MultiplyByAScalarThatACallBeforeHasMade) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const auto own = static_cast<float>(rank), n = static_cast<float>(ranks());
    const GpuVector<float> scalar(cuda_, gpu(rank), {own}), data(cuda_, gpu(rank), {own});
    const GpuStream stream(cuda_, gpu(rank));
    horingRedOp_t op;
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    ASSERT_HORING(horingGroupStart());
    EXPECT_HORING(
        horingAllReduce(scalar.data(), scalar.data(), 1, horingFloat, horingAvg, comm, stream.get()));
    EXPECT_HORING(horingAllReduce(data.data(), data.data(), 1, horingFloat, op, comm, stream.get()));
    ASSERT_HORING(horingGroupEnd());
    stream.synchronize();
    const float average = (n - 1) / 2;
    EXPECT_FLOAT_EQ(scalar.read()[0], average);
    EXPECT_FLOAT_EQ(data.read()[0], average * n * (n - 1) / 2);
    ASSERT_HORING(horingRedOpDestroy(op, comm));
  });
}

// Operations of two streams of one rank run one after the other, whatever delays a stream. A sum in which every rank scales its
// input, with the scalar in any memory.
TEST_P(GpuKernels, AreOrderedByTheirStreams) {
  onEveryRank(ranks(), [&](int rank) {
    const size_t n = 5000;
    const std::vector<int64_t> twos(n, 2);
    const PinnedVector<int64_t> ones(cuda_, gpu(rank), std::vector<int64_t>(n, 1)),
        first(cuda_, gpu(rank), n), second(cuda_, gpu(rank), n);
    const GpuVector<int64_t> data(cuda_, gpu(rank), std::vector<int64_t>(n, 1000));
    const GpuVector<int64_t> mine(cuda_, gpu(rank), twos);
    const GpuStream stream(cuda_, gpu(rank)), other(cuda_, gpu(rank));
    const auto add = [&](const GpuVector<int64_t>& to, const GpuStream& on) {
      return horingAllReduce(to.data(), to.data(), n, horingInt64, horingSum, comm(rank), on.get());
    };
    // Loads kernels and makes a plan, for which a driver may wait for all streams.
    ASSERT_HORING(add(data, stream));
    stream.synchronize();
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    data.writeOn(stream, ones);
    for (int i = 0; i < 3; ++i) ASSERT_HORING(add(data, stream));
    data.readOn(stream, first);
    ASSERT_HORING(add(mine, other));
    mine.readOn(other, second);
    EXPECT_FALSE(stream.idle());
    EXPECT_FALSE(other.idle());
    gate = true;
    stream.synchronize();
    other.synchronize();
    EXPECT_EQ(first.values(), std::vector<int64_t>(n, ranks() * ranks() * ranks()));
    EXPECT_EQ(second.values(), std::vector<int64_t>(n, 2 * ranks()));
  });
}

// Also for the streams of two threads, which both use cudaStreamPerThread: one after the other, except for ranks that share a GPU,
// where the launching thread would use a different stream.
TEST_P(GpuKernels, AreOrderedOnTheStreamOfEachThread) {
  constexpr size_t n = 5000;
  const bool are_shared = ranks() > std::min(GetParam().gpus, cuda_.gpus());
  onEveryRank(ranks(), [&](int rank) {
    const CurrentGpu current(cuda_, gpu(rank));
    const std::vector<int64_t> thousands(n, 1000);
    const PinnedVector<int64_t> ones(cuda_, gpu(rank), std::vector<int64_t>(n, 1)),
        first(cuda_, gpu(rank), n), second(cuda_, gpu(rank), n);
    const GpuVector<int64_t> data(cuda_, gpu(rank), thousands), sum(cuda_, gpu(rank), thousands),
        total(cuda_, gpu(rank), thousands);
    const auto add = [&](const GpuVector<int64_t>& from, const GpuVector<int64_t>& to,
                         const GpuStream& stream) {
      return horingAllReduce(from.data(), to.data(), n, horingInt64, horingSum, comm(rank), stream.get());
    };
    const GpuStream stream = GpuStream::ofThread(cuda_), other(cuda_, gpu(rank));
    ASSERT_HORING(add(data, sum, other));
    other.synchronize();
    if (are_shared) {
      EXPECT_TRUE(refuses(add(data, sum, stream), horingInvalidUsage, "all ranks that share GPU"));
      ASSERT_HORING(add(data, sum, other)) << "it does not stick";
      other.synchronize();
      return;
    }
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    data.writeOn(stream, ones);
    ASSERT_HORING(add(data, sum, stream));
    sum.readOn(stream, first);
    std::thread next([&] {
      const CurrentGpu here(cuda_, gpu(rank));
      const GpuStream own = GpuStream::ofThread(cuda_);
      EXPECT_HORING(add(sum, total, own));
      total.readOn(own, second);
      // What does not wait is done by now.
      for (int look = 0; look < 10; ++look) (void)data.read();
      EXPECT_FALSE(own.idle());
      gate = true;
      own.synchronize();
    });
    next.join();
    stream.synchronize();
    EXPECT_EQ(first.values(), std::vector<int64_t>(n, ranks()));
    EXPECT_EQ(second.values(), std::vector<int64_t>(n, ranks() * ranks()));
  });
}

// Operations on a stream of this library are launched by its thread, but in the order of the calls on every rank.
TEST_P(GpuKernels, KeepTheOrderOfCallsOnStreamsOfEitherKind) {
  onEveryRank(ranks(), [&](int rank) {
    const size_t n = 300;
    const GpuVector<int64_t> data(cuda_, gpu(rank), std::vector<int64_t>(n, 1));
    const GpuVector<float> mine(cuda_, gpu(rank), std::vector<float>(n, 1));
    const GpuStream stream(cuda_, gpu(rank));
    horingStream_t own = nullptr;
    ASSERT_HORING(horingStreamCreate(&own));
    for (int i = 0; i < 8; ++i) {
      ASSERT_HORING(horingAllReduce(data.data(), data.data(), n, horingInt64, horingSum, comm(rank), own));
      ASSERT_HORING(
          horingAllReduce(mine.data(), mine.data(), n, horingFloat, horingMax, comm(rank), stream.get()));
    }
    ASSERT_HORING(horingStreamSynchronize(own));
    stream.synchronize();
    int64_t expected = 1;
    for (int i = 0; i < 8; ++i) expected *= ranks();
    EXPECT_EQ(data.read(), std::vector<int64_t>(n, expected));
    EXPECT_EQ(mine.read(), std::vector<float>(n, 1));
    EXPECT_HORING(horingStreamDestroy(own));
  });
}

using GpuKernelsOfThreads = GpuKernels;

TEST_P(GpuKernelsOfThreads, ComeInAGroupWhereOneThreadHasSeveralRanks) {
  std::vector<std::unique_ptr<GpuVector<float>>> data;
  std::vector<std::unique_ptr<GpuStream>> streams;
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank) {
    data.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), filled(rank, 1000)));
    streams.push_back(std::make_unique<GpuStream>(cuda_, gpu(rank)));
    for (int i = 0; i < 2; ++i)
      ASSERT_HORING(horingAllReduce(data.back()->data(), data.back()->data(), 1000, horingFloat, horingSum,
                                    comm(rank), streams.back()->get()));
  }
  ASSERT_HORING(horingGroupEnd());
  for (int rank = 0; rank < ranks(); ++rank) {
    streams[static_cast<size_t>(rank)]->synchronize();
    const std::vector<float> sum = data[static_cast<size_t>(rank)]->read();
    for (size_t i = 0; i < sum.size(); ++i) {
      float expected = 0;
      for (int r = 0; r < ranks(); ++r) expected += element(r, i);
      ASSERT_EQ(sum[i], expected * static_cast<float>(ranks())) << i;
    }
  }
}

TEST_P(GpuKernels, OfAGroupAreOneLaunch) {
  constexpr size_t kCalls = 4, n = 1000;
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> data(cuda_, gpu(rank), filled(rank, n));
    ASSERT_HORING(horingAllReduce(data.data(), data.data(), n, horingFloat, horingSum, comm(rank), nullptr));
  });
  const auto gpus = static_cast<size_t>(std::min(GetParam().gpus, cuda_.gpus()));
  const size_t in_a_launch = 8 / (size() / gpus);
  const int before = FakeCuda::isReal() ? 0 : cuda_.launches();
  std::vector<std::unique_ptr<GpuVector<float>>> data;
  std::vector<std::unique_ptr<GpuStream>> streams;
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank) {
    streams.push_back(std::make_unique<GpuStream>(cuda_, gpu(rank)));
    for (size_t i = 0; i < kCalls; ++i) {
      data.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), filled(rank, n + i)));
      float* const values = data.back()->data();
      ASSERT_HORING(
          horingAllReduce(values, values, n + i, horingFloat, horingSum, comm(rank), streams.back()->get()));
    }
  }
  ASSERT_HORING(horingGroupEnd());
  if (!FakeCuda::isReal()) {
    EXPECT_EQ(static_cast<size_t>(cuda_.launches() - before),
              gpus * ((kCalls + in_a_launch - 1) / in_a_launch));
  }
  for (const auto& stream : streams) stream->synchronize();
  for (const auto& vector : data) {
    const std::vector<float> sum = vector->read();
    for (size_t i = 0; i < sum.size(); ++i) {
      float expected = 0;
      for (int r = 0; r < ranks(); ++r) expected += element(r, i);
      ASSERT_EQ(sum[i], expected) << i;
    }
  }
}

// Of several sizes and kinds, by plans that use the same queues.
TEST_P(GpuKernels, OfAGroupGiveWhatTheHostGives) {
  onEveryRank(ranks(), [&](int rank) {
    const std::vector<size_t> sizes = {1000, kSizes[std::size(kSizes) - 1], 1, 5000};
    const GpuStream stream(cuda_, gpu(rank));
    std::vector<std::unique_ptr<GpuVector<float>>> sends, receives;
    std::vector<std::vector<float>> expected;
    for (const bool on_gpu : {false, true}) {
      if (on_gpu) {
        ASSERT_HORING(horingGroupStart());
      }
      for (const size_t n : sizes) {
        const size_t all = n * size();
        const std::vector<float> send = filled(rank, all);
        for (int kind = 0; kind < 3; ++kind) {
          std::vector<float> receive(all, -7);
          const float* from = send.data();
          float* to = receive.data();
          if (on_gpu) {
            sends.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), send));
            receives.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), receive));
            from = sends.back()->data();
            to = receives.back()->data();
          }
          void* const on = on_gpu ? stream.get() : nullptr;
          if (kind == 0) {
            ASSERT_HORING(horingAllReduce(from, to, n, horingFloat, horingSum, comm(rank), on));
          } else if (kind == 1) {
            ASSERT_HORING(horingAllGather(from, to, n, horingFloat, comm(rank), on));
          } else {
            ASSERT_HORING(horingReduceScatter(from, to, n, horingFloat, horingSum, comm(rank), on));
          }
          if (!on_gpu) expected.push_back(receive);
        }
      }
      if (on_gpu) {
        ASSERT_HORING(horingGroupEnd());
      }
    }
    stream.synchronize();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(receives[i]->read(), expected[i]) << i;
  });
}

// One thread, all ranks: waiting for a call without a stream before making the other ranks' calls would deadlock.
TEST_P(GpuKernels, OfAGroupAreOnStreamsAndOnNone) {
  std::vector<std::unique_ptr<GpuVector<float>>> now, later;
  std::vector<std::unique_ptr<GpuStream>> streams;
  const size_t n = 1000;
  for (int rank = 0; rank < ranks(); ++rank) {
    streams.push_back(std::make_unique<GpuStream>(cuda_, gpu(rank)));
    for (int i = 0; i < 2; ++i)
      for (auto* const vectors : {&now, &later})
        vectors->push_back(std::make_unique<GpuVector<float>>(cuda_, gpu(rank), filled(rank, n)));
  }
  const auto callAll = [&](int rank) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t index = 2 * static_cast<size_t>(rank) + i;
      float *const here = now[index]->data(), *const there = later[index]->data();
      ASSERT_HORING(horingAllReduce(here, here, n, horingFloat, horingSum, comm(rank), nullptr));
      ASSERT_HORING(horingAllReduce(there, there, n, horingFloat, horingSum, comm(rank),
                                    streams[static_cast<size_t>(rank)]->get()));
    }
  };
  // A process, as a node has one, with one thread and its own group.
  if (areNodes()) {
    onEveryRank(ranks(), [&](int rank) {
      ASSERT_HORING(horingGroupStart());
      callAll(rank);
      ASSERT_HORING(horingGroupEnd());
    });
  } else {
    ASSERT_HORING(horingGroupStart());
    for (int rank = 0; rank < ranks(); ++rank) callAll(rank);
    ASSERT_HORING(horingGroupEnd());
  }
  const auto expectSums = [&](const auto& vectors) {
    for (const auto& vector : vectors) {
      const std::vector<float> sum = vector->read();
      for (size_t i = 0; i < n; ++i) {
        float expected = 0;
        for (int r = 0; r < ranks(); ++r) expected += element(r, i);
        ASSERT_EQ(sum[i], expected) << i;
      }
    }
  };
  expectSums(now);
  for (const auto& stream : streams) stream->synchronize();
  expectSums(later);
}

// Half of the ranks, backwards; then all but the first.
TEST_P(GpuKernels, ServeCommunicatorsMadeOfOthers) {
  onEveryRank(ranks(), [&](int rank) {
    const auto sumOf = [&](horingComm_t child, const std::vector<int>& members) {
      const GpuVector<float> data(cuda_, gpu(rank), filled(rank, 1000));
      const GpuStream stream(cuda_, gpu(rank));
      for (void* const on : {stream.get(), static_cast<void*>(nullptr)}) {
        data.write(filled(rank, 1000));
        ASSERT_HORING(horingAllReduce(data.data(), data.data(), 1000, horingFloat, horingSum, child, on));
        stream.synchronize();
        const std::vector<float> sum = data.read();
        for (size_t i = 0; i < sum.size(); ++i) {
          float expected = 0;
          for (const int member : members) expected += element(member, i);
          ASSERT_EQ(sum[i], expected) << i;
        }
      }
    };
    std::vector<int> half, rest;
    for (int r = 0; r < ranks(); ++r) {
      if (r % 2 == rank % 2) half.push_back(r);
      if (r > 0) rest.push_back(r);
    }
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(comm(rank), rank % 2, -rank, &child, nullptr));
    sumOf(child, half);
    EXPECT_HORING(horingCommDestroy(child));
    if (rank == 0) return;
    int excluded = 0;
    ASSERT_HORING(horingCommShrink(comm(rank), &excluded, 1, &child, nullptr, HORING_SHRINK_DEFAULT));
    sumOf(child, rest);
    EXPECT_HORING(horingCommDestroy(child));
  });
}

TEST_P(GpuKernels, TakeNoMoreThanTheirShareOfMemory) {
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> data(cuda_, gpu(rank), filled(rank, 1000));
    uint64_t before = 0, after = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &before));
    if (metById()) before -= 32U << 20;  // since they were made, as their GPUs were current
    EXPECT_HORING(
        horingAllReduce(data.data(), data.data(), 1000, horingFloat, horingSum, comm(rank), nullptr));
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &after));
    EXPECT_GE(after - before, 32U << 20);
    // Nodes have queues in pinned memory, too, and links.
    EXPECT_LE(after - before, (areNodes() ? 128U << 20 : 32U << 20) + (1U << 20));
  });
}

// Two ranks on each of two GPUs are all that the last two are.
constexpr Place kPlaces[] = {{1, 1}, {3, 1}, {4, 2}, {2, 2}, {4, 4}};
INSTANTIATE_TEST_SUITE_P(Places, GpuKernels, testing::ValuesIn(firstUnderSanitizer(3, kPlaces)));
// That wait for each other in one launch.
INSTANTIATE_TEST_SUITE_P(Queues, GpuKernels, testing::Values(Place{2, 1, nullptr, "ring"}));
INSTANTIATE_TEST_SUITE_P(Places, GpuKernelsOfThreads, testing::ValuesIn(firstUnderSanitizer(3, kPlaces)));
constexpr Place kNodes[] = {
    {3, 3, "shm,socket", "auto", "3"}, {4, 4, "socket"}, {2, 2, "shm,socket"}, {2, 2, "socket", "auto", "3"}};
INSTANTIATE_TEST_SUITE_P(Nodes, GpuKernels, testing::ValuesIn(firstUnderSanitizer(2, kNodes)));
constexpr Place kThreads[] = {{3, 3, kById}, {2, 2, kById}};
INSTANTIATE_TEST_SUITE_P(Threads, GpuKernels, testing::ValuesIn(firstUnderSanitizer(1, kThreads)));
INSTANTIATE_TEST_SUITE_P(Threads, GpuKernelsOfThreads, testing::ValuesIn(firstUnderSanitizer(1, kThreads)));

// Streams order them, though the buffers belong to another rank's call.
TEST(GpuOneLaunch, KeepsCallsApartOfWhichOneReadsWhatAnotherRanksHasWritten) {
  const FakeCuda cuda;
  if (cuda.gpus() == 0) GTEST_SKIP() << "no GPU here";
  cuda.setKernels(&horing::test::emulatedKernels());
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  {
    constexpr size_t n = 40'000;
    const GpuStream stream(cuda, 0);
    const GpuVector<float> ones(cuda, 0, std::vector<float>(n, 1));
    const GpuVector<float> sums_0(cuda, 0, std::vector<float>(n)), sums_1(cuda, 0, std::vector<float>(n));
    const GpuVector<float> out_0(cuda, 0, std::vector<float>(n)), out_1(cuda, 0, std::vector<float>(n));
    const auto add = [&](size_t rank, const GpuVector<float>& from, const GpuVector<float>& to) {
      EXPECT_HORING(
          horingAllReduce(from.data(), to.data(), n, horingFloat, horingSum, comms[rank], stream.get()));
    };
    EXPECT_HORING(horingGroupStart());
    add(0, ones, sums_0);
    add(1, ones, sums_1);
    add(0, sums_1, out_0);
    add(1, sums_0, out_1);
    EXPECT_HORING(horingGroupEnd());
    stream.synchronize();
    EXPECT_EQ(out_0.read(), std::vector<float>(n, 4));
    EXPECT_EQ(out_1.read(), std::vector<float>(n, 4));
  }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  cuda.setKernels(nullptr);
}

// With the largest number of blocks, which is 16 on this GPU. If HORING_ALGO names the ring, each of its two lanes has half of
// them.
TEST(GpuRing, IsInOneLane) {
  if (FakeCuda::isReal()) GTEST_SKIP() << "a driver does not tell grids";
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  cuda.setKernels(&horing::test::emulatedKernels());
  const horing::test::TemporaryFolder folder;
  const std::string table = folder.path() / "selection";
  std::ofstream(table) << "* * * * 64 one_shot\n* * * * 1K direct\n* * * * * ring\n";
  using LanesAndParts = std::pair<int, int>;
  // Of the last of several calls.
  const auto gridOf = [&](int ranks, const std::vector<size_t>& counts) {
    const std::vector<horingComm_t> comms = makeCommunicators(ranks, Meeting::kInitAll);
    onEveryRank(ranks, [&](int rank) {
      for (const size_t count : counts) {
        const GpuVector<float> data(cuda, rank, std::vector<float>(count, static_cast<float>(rank)));
        const horingComm_t comm = comms[static_cast<size_t>(rank)];
        ASSERT_HORING(
            horingAllReduce(data.data(), data.data(), count, horingFloat, horingSum, comm, nullptr));
        EXPECT_EQ(data.read(), std::vector<float>(count, static_cast<float>(ranks * (ranks - 1) / 2)));
      }
    });
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
    return LanesAndParts{cuda.columns(), cuda.rows()};
  };
  constexpr size_t kLarge = 2'000'000;
  {
    const Setting selection("HORING_SELECTION", table);
    EXPECT_EQ(gridOf(2, {1000}), LanesAndParts(1, 1));
    EXPECT_EQ(gridOf(2, {kLarge}), LanesAndParts(1, 16));
    // What sends to all before does not use up what the ring needs.
    EXPECT_EQ(gridOf(4, {100, 8, kLarge}), LanesAndParts(1, 16));
  }
  const Setting algorithm("HORING_ALGO", "ring");
  EXPECT_EQ(gridOf(2, {1000}), LanesAndParts(2, 1));
  EXPECT_EQ(gridOf(2, {kLarge}), LanesAndParts(2, 8));
  cuda.setKernels(nullptr);
}

// Two ranks of one process, each with a GPU.

}  // namespace
