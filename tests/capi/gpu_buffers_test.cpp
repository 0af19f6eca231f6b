// Operations on GPU memory, with a fake driver without a GPU: its GPU memory crashes all accesses but the driver's.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "fake_cuda/fake_gpu.h"
#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

constexpr int kGpu = 1;

class GpuBuffers : public GpuCollectives {
 protected:
  // Carries `call` out on memory of the host, then on a GPU's, on a stream of CUDA and without: it must leave the same.
  template <typename Call>
  void expectSame(int rank, size_t sends, size_t receives, const Call& call) const {
    const std::vector<float> send = filled(rank, sends), before(receives, -7);
    std::vector<float> expected = before;
    ASSERT_HORING(call(send.data(), expected.data(), nullptr));
    const GpuVector<float> gpu_send(cuda_, kGpu, send), gpu_receive(cuda_, kGpu, before);
    const GpuStream stream(cuda_, kGpu);
    ASSERT_HORING(call(gpu_send.data(), gpu_receive.data(), stream.get()));
    stream.synchronize();
    EXPECT_EQ(gpu_receive.read(), expected) << "on a stream of CUDA";
    gpu_receive.write(before);
    ASSERT_HORING(call(gpu_send.data(), gpu_receive.data(), nullptr));
    EXPECT_EQ(gpu_receive.read(), expected) << "complete on return";
    EXPECT_EQ(gpu_send.read(), send);
  }
  // Of what filled() gives each rank; looks at some elements.
  void expectTwiceTheSum(const std::vector<float>& sum) const {
    for (const size_t i : {size_t{0}, sum.size() / 2, sum.size() - 1}) {
      float expected = 0;
      for (int r = 0; r < ranks(); ++r) expected += 2 * element(r, i);
      EXPECT_EQ(sum[i], expected) << i;
    }
  }
  template <typename Body>
  uint64_t memoryTakenBy(int rank, const Body& body) const {
    uint64_t before = 0, after = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &before));
    body();
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &after));
    return after - before;
  }
  size_t size() const { return static_cast<size_t>(ranks()); }

 private:
  const Setting path_{"HORING_GPU_PATH", "staged"};
};

// The last of each: several pieces, of unequal sizes; of vectors, and of blocks.
constexpr size_t kSizes[] = {0, 1, 1000, 1'300'003};
constexpr size_t kBlockSizes[] = {0, 1, 1000, 300'003};

// Two pieces in flight on streams, one of a call that is complete on return, and the additional host memory for pieces.
constexpr uint64_t kMostPinned = 29 << 20;

TEST_P(GpuBuffers, CarryEveryReduction) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    for (const size_t n : kSizes) {
      expectSame(rank, n, n, [&](const float* send, float* receive, void* stream) {
        return horingAllReduce(send, receive, n, horingFloat, horingSum, comm, stream);
      });
      expectSame(rank, n, n, [&](const float* send, float* receive, void* stream) {
        return horingReduce(send, receive, n, horingFloat, horingMax, 0, comm, stream);
      });
    }
    for (const size_t n : kBlockSizes)
      expectSame(rank, n * size(), n, [&](const float* send, float* receive, void* stream) {
        return horingReduceScatter(send, receive, n, horingFloat, horingSum, comm, stream);
      });
  });
}

TEST_P(GpuBuffers, CarryWhatOnlyMoves) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int root = ranks() - 1;
    for (const size_t n : kBlockSizes) {
      const size_t all = n * size();
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

TEST_P(GpuBuffers, CarryBlocksThatDiffer) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    // Rank r's block has 3 r + 1 elements; the gaps between blocks must not be accessed.
    std::vector<size_t> counts, offsets;
    size_t end = 2;
    for (size_t r = 0; r < size(); ++r) {
      counts.push_back(3 * r + 1);
      offsets.push_back(end);
      end += counts.back() + 2;
    }
    const size_t own = counts[static_cast<size_t>(rank)];
    expectSame(rank, own, end, [&](const float* send, float* receive, void* stream) {
      return horingAllGatherV(send, own, receive, counts.data(), offsets.data(), horingFloat, comm, stream);
    });
    expectSame(rank, end, own, [&](const float* send, float* receive, void* stream) {
      return horingReduceScatterV(send, counts.data(), offsets.data(), receive, horingFloat, horingSum, comm,
                                  stream);
    });
    expectSame(rank, own, end, [&](const float* send, float* receive, void* stream) {
      return horingGatherV(send, own, receive, counts.data(), offsets.data(), horingFloat, 0, comm, stream);
    });
    expectSame(rank, end, own, [&](const float* send, float* receive, void* stream) {
      return horingScatterV(send, counts.data(), offsets.data(), receive, own, horingFloat, 0, comm, stream);
    });
    const std::vector<size_t> same(size(), 5);
    expectSame(rank, 5 * size(), 5 * size(), [&](const float* send, float* receive, void* stream) {
      return horingAlltoAllV(send, same.data(), nullptr, receive, same.data(), nullptr, horingFloat, comm,
                             stream);
    });
  });
}

TEST_P(GpuBuffers, TakeNoPinnedMemoryWhereNothingMoves) {
  onEveryRank(ranks(), [&](int rank) {
    const GpuVector<float> data(cuda_, kGpu, std::vector<float>(8));
    const GpuStream stream(cuda_, kGpu);
    const std::vector<size_t> none(size(), 0);
    const auto gatherNothing = [&](float* on, void* when) {
      return horingAllGatherV(on, 0, on, none.data(), none.data(), horingFloat, comm(rank), when);
    };
    float of_host = 0;
    EXPECT_HORING(gatherNothing(&of_host, nullptr));  // takes what hosts need
    uint64_t before = 0, after = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &before));
    EXPECT_HORING(gatherNothing(data.data(), stream.get()));
    EXPECT_HORING(gatherNothing(data.data(), nullptr));
    stream.synchronize();
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &after));
    EXPECT_LT(after - before, 1U << 20);
  });
}

TEST_P(GpuBuffers, CarryListsOfSmallAndLarge) {
  onEveryRank(ranks(), [&](int rank) {
    const std::vector<size_t> counts = {3, 0, 70'000, 1'300'003, 5, 90'000, 100'000, 300'000, 9};
    const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
    expectSame(rank, all, all, [&](const float* send, float* receive, void* stream) {
      std::vector<const void*> sends;
      std::vector<void*> receives;
      for (const size_t count : counts) {
        sends.push_back(send);
        receives.push_back(receive);
        send += count;
        receive += count;
      }
      return horingAllReduceList(sends.data(), receives.data(), counts.data(), counts.size(), horingFloat,
                                 horingSum, comm(rank), stream);
    });
  });
}

TEST_P(GpuBuffers, CarryMessages) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    for (const size_t n : kBlockSizes)
      expectSame(rank, 2 * n, 2 * n, [&](const float* send, float* receive, void* stream) {
        EXPECT_HORING(horingGroupStart());
        EXPECT_HORING(horingSend(send, n, horingFloat, next, comm, stream));
        EXPECT_HORING(horingSend(send + n, n, horingFloat, next, comm, stream));
        EXPECT_HORING(horingRecv(receive, n, horingFloat, previous, comm, stream));
        EXPECT_HORING(horingRecv(receive + n, n, horingFloat, previous, comm, stream));
        return horingGroupEnd();
      });
  });
}

// Of what moves, most goes through other memory than that which is pinned. Both ends leave room for other messages.
TEST_P(GpuBuffers, PinLittleForLargeMessages) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    const size_t small = 100'003, large = 3'000'001, all = 2 * (small + large);
    const auto exchange = [&](const float* send, float* receive, void* stream) {
      EXPECT_HORING(horingGroupStart());
      for (const size_t n : {small, large}) {
        EXPECT_HORING(horingSend(send, n, horingFloat, next, comm, stream));
        EXPECT_HORING(horingSend(send + n, n, horingFloat, rank, comm, stream));
        EXPECT_HORING(horingRecv(receive, n, horingFloat, previous, comm, stream));
        EXPECT_HORING(horingRecv(receive + n, n, horingFloat, rank, comm, stream));
        send += 2 * n;
        receive += 2 * n;
      }
      return horingGroupEnd();
    };
    const std::vector<float> of_host(all);
    std::vector<float> to_host(all);
    ASSERT_HORING(exchange(of_host.data(), to_host.data(), nullptr));  // takes what hosts need
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, all, all, exchange); }), kMostPinned);
  });
}

// To and from all others at once, of sizes that end anywhere, by a GPU that takes its time.
TEST_P(GpuBuffers, CarryLargeMessagesBetweenAll) {
  if (ranks() < 3) return;
  cuda_.slowCopies(300);
  onEveryRank(ranks(), [&](int rank) {
    const auto count = [](int from, int to) {
      return static_cast<size_t>(1'400'000 + 1009 * from + 101 * to);
    };
    size_t sends = 0, receives = 0;
    for (int peer = 0; peer < ranks(); ++peer) {
      sends += count(rank, peer);
      receives += count(peer, rank);
    }
    expectSame(rank, sends, receives, [&](const float* send, float* receive, void* stream) {
      EXPECT_HORING(horingGroupStart());
      for (int peer = 0; peer < ranks(); ++peer) {
        EXPECT_HORING(horingSend(send, count(rank, peer), horingFloat, peer, comm(rank), stream));
        EXPECT_HORING(horingRecv(receive, count(peer, rank), horingFloat, peer, comm(rank), stream));
        send += count(rank, peer);
        receive += count(peer, rank);
      }
      return horingGroupEnd();
    });
  });
  cuda_.slowCopies(0);
}

// Each message progresses while the other messages of its group wait.
TEST_P(GpuBuffers, CarryLargeMessagesThatOthersWaitFor) {
  if (ranks() < 3) return;
  onEveryRank(ranks(), [&](int rank) {
    const size_t large = 3'000'001, small = 5;
    const GpuVector<float> sent(cuda_, kGpu, filled(rank, large)),
        received(cuda_, kGpu, std::vector<float>(large, -7));
    const GpuStream stream(cuda_, kGpu);
    const auto send = [&](size_t n, int peer) {
      EXPECT_HORING(horingSend(sent.data(), n, horingFloat, peer, comm(rank), stream.get()));
    };
    const auto receive = [&](size_t n, int peer) {
      EXPECT_HORING(horingRecv(received.data(), n, horingFloat, peer, comm(rank), stream.get()));
    };
    if (rank == 0) {
      ASSERT_HORING(horingGroupStart());
      receive(small, 2);  // which sends once rank 1 has all of the other message
      send(large, 1);
      ASSERT_HORING(horingGroupEnd());
    } else if (rank == 1) {
      receive(large, 0);
      send(small, 2);
    } else if (rank == 2) {
      receive(small, 1);
      send(small, 0);
    }
    stream.synchronize();
    std::vector<float> expected(large, -7);
    if (rank < 3) {
      const std::vector<float> came = filled((rank + 2) % 3, rank == 1 ? large : small);
      std::copy(came.begin(), came.end(), expected.begin());
    }
    EXPECT_EQ(received.read(), expected);
  });
}

// Several pieces: some blocks end before others.
TEST_P(GpuBuffers, PinLittleForLargeBlocksThatDiffer) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    std::vector<size_t> counts, offsets;
    size_t end = 2;
    for (size_t r = 0; r < size(); ++r) {
      counts.push_back(r == 1 ? 0 : 3'000'001 / (r + 1));
      offsets.push_back(end);
      end += counts.back() + 2;
    }
    const size_t own = counts[static_cast<size_t>(rank)];
    const auto gather = [&](const float* send, float* receive, void* stream) {
      return horingAllGatherV(send, own, receive, counts.data(), offsets.data(), horingFloat, comm, stream);
    };
    const auto reduce = [&](const float* send, float* receive, void* stream) {
      return horingReduceScatterV(send, counts.data(), offsets.data(), receive, horingFloat, horingSum, comm,
                                  stream);
    };
    const std::vector<float> of_host(end);
    std::vector<float> to_host(end);
    ASSERT_HORING(gather(of_host.data(), to_host.data(), nullptr));  // takes what hosts need
    ASSERT_HORING(reduce(of_host.data(), to_host.data(), nullptr));
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, own, end, gather); }), kMostPinned);
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, end, own, reduce); }), kMostPinned);
  });
}

// Where the ranks cannot cut alike: some have large blocks, others small ones or none.
TEST_P(GpuBuffers, PinLittleForLargeBlocksThatNotAllRanksKnow) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int root = ranks() - 1;
    // Of rank `from` for rank `to`.
    const auto block = [&](size_t from, size_t to) -> size_t {
      return to == 1 ? from : 3'000'001 / (from + to + 1);
    };
    struct Table {
      std::vector<size_t> counts, offsets;
      size_t end = 2;
      void add(size_t count) {
        counts.push_back(count);
        offsets.push_back(end);
        end += count + 2;
      }
    };
    const auto self = static_cast<size_t>(rank);
    Table of_root, sent, received;
    for (size_t r = 0; r < size(); ++r) {
      of_root.add(block(0, r));
      sent.add(block(self, r));
      received.add(block(r, self));
    }
    const size_t own = of_root.counts[self], all = rank == root ? of_root.end : 0;
    const auto gather = [&](const float* send, float* receive, void* stream) {
      return horingGatherV(send, own, receive, of_root.counts.data(), of_root.offsets.data(), horingFloat,
                           root, comm, stream);
    };
    const auto scatter = [&](const float* send, float* receive, void* stream) {
      return horingScatterV(send, of_root.counts.data(), of_root.offsets.data(), receive, own, horingFloat,
                            root, comm, stream);
    };
    const auto exchange = [&](const float* send, float* receive, void* stream) {
      return horingAlltoAllV(send, sent.counts.data(), sent.offsets.data(), receive, received.counts.data(),
                             received.offsets.data(), horingFloat, comm, stream);
    };
    const std::vector<float> of_host(std::max(of_root.end, sent.end));
    std::vector<float> to_host(std::max(of_root.end, received.end));
    ASSERT_HORING(gather(of_host.data(), to_host.data(), nullptr));  // takes what hosts need
    ASSERT_HORING(scatter(of_host.data(), to_host.data(), nullptr));
    ASSERT_HORING(exchange(of_host.data(), to_host.data(), nullptr));
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, own, all, gather); }), kMostPinned);
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, all, own, scatter); }), kMostPinned);
    EXPECT_LT(memoryTakenBy(rank, [&] { expectSame(rank, sent.end, received.end, exchange); }), kMostPinned);
  });
}

// Which none of the ranks could carry out one after the other.
TEST_P(GpuBuffers, CarryMessagesOnSeveralStreams) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    const size_t n = 2 << 20;
    const GpuVector<float> sent(cuda_, kGpu, std::vector<float>(n)),
        received(cuda_, kGpu, std::vector<float>(n));
    const PinnedVector<float> mine(cuda_, kGpu, filled(rank, n)), result(cuda_, kGpu, n);
    const GpuStream sends(cuda_, kGpu), receives(cuda_, kGpu);
    std::atomic<bool> gate{false};
    sends.waitFor(gate);
    sent.writeOn(sends, mine);
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(horingRecv(received.data(), n, horingFloat, previous, comm, receives.get()));
    ASSERT_HORING(horingSend(sent.data(), n, horingFloat, next, comm, sends.get()));
    ASSERT_HORING(horingGroupEnd());
    received.readOn(sends, result);
    EXPECT_FALSE(receives.idle());
    gate = true;
    sends.synchronize();
    receives.synchronize();
    EXPECT_EQ(result.values(), filled(previous, n));
  });
}

// The thread of the library is at the first, which takes several pieces, when the second begins to wait for it on its stream.
TEST_P(GpuBuffers, GoOneAfterTheOtherOnStreamsOfBothKinds) {
  onEveryRank(ranks(), [&](int rank) {
    const std::vector<float> ones(3'000'000, 1);
    const GpuVector<float> first(cuda_, rank, ones), second(cuda_, rank, ones);
    const GpuStream stream(cuda_, rank);
    horingStream_t own = nullptr;
    ASSERT_HORING(horingStreamCreate(&own));
    for (const auto& [data, on] : {std::pair(&first, own), std::pair(&second, horingStream_t(stream.get()))})
      EXPECT_HORING(
          horingAllReduce(data->data(), data->data(), ones.size(), horingFloat, horingSum, comm(rank), on));
    EXPECT_HORING(horingStreamSynchronize(own));
    stream.synchronize();
    for (const auto* data : {&first, &second})
      EXPECT_EQ(data->read(), std::vector<float>(ones.size(), static_cast<float>(ranks())));
    EXPECT_HORING(horingStreamDestroy(own));
  });
}

TEST_P(GpuBuffers, MultiplyByAScalarOnTheGpu) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const std::vector<float> mine = filled(rank, 1'300'003);
    const GpuVector<float> data(cuda_, kGpu, mine), scalar(cuda_, kGpu, {99});
    const PinnedVector<float> factor(cuda_, kGpu, std::vector<float>(1, 2));
    const GpuStream stream(cuda_, kGpu);
    horingRedOp_t op;
    EXPECT_TRUE(
        refuses(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarHostImmediate, comm),
                horingInvalidUsage, "scalar"));
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    scalar.writeOn(stream, factor);
    ASSERT_HORING(
        horingAllReduce(data.data(), data.data(), mine.size(), horingFloat, op, comm, stream.get()));
    stream.synchronize();
    expectTwiceTheSum(data.read());
    std::vector<float> on_host = {1};
    EXPECT_TRUE(refuses(horingAllReduce(on_host.data(), on_host.data(), 1, horingFloat, op, comm, nullptr),
                        horingInvalidUsage, "the scalar of op"));
    ASSERT_HORING(horingRedOpDestroy(op, comm));
  });
}

TEST_P(GpuBuffers, RefuseAScalarOnAnotherGpu) {
  if (cuda_.gpus() < 2) GTEST_SKIP() << "fewer than two GPUs here";
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const GpuVector<float> data(cuda_, kGpu, filled(rank, 8)), scalar(cuda_, kGpu == 0 ? 1 : 0, {2});
    horingRedOp_t op;
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    EXPECT_TRUE(refuses(horingAllReduce(data.data(), data.data(), 8, horingFloat, op, comm, nullptr),
                        horingInvalidUsage, "the scalar of op"));
    EXPECT_EQ(data.read(), filled(rank, 8));
    ASSERT_HORING(horingRedOpDestroy(op, comm));
  });
}

// In several pieces, behind what writes the scalar on the stream.
TEST_P(GpuBuffers, MultiplyByAScalarInMemoryOfTheHost) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const std::vector<float> mine = filled(rank, 3'300'003);
    const GpuVector<float> data(cuda_, kGpu, mine), factor(cuda_, kGpu, {2});
    const PinnedVector<float> scalar(cuda_, kGpu, std::vector<float>(1, 99));
    const GpuStream stream(cuda_, kGpu);
    horingRedOp_t op;
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    factor.readOn(stream, scalar);
    ASSERT_HORING(
        horingAllReduce(data.data(), data.data(), mine.size(), horingFloat, op, comm, stream.get()));
    gate = true;
    stream.synchronize();
    expectTwiceTheSum(data.read());
    ASSERT_HORING(horingRedOpDestroy(op, comm));
  });
}

// Everything is called before the stream comes to any of it.
TEST_P(GpuBuffers, AreOrderedByTheirStream) {
  onEveryRank(ranks(), [&](int rank) {
    const size_t n = 5000;
    const std::vector<int64_t> twos(n, 2);
    const PinnedVector<int64_t> ones(cuda_, kGpu, std::vector<int64_t>(n, 1)), first(cuda_, kGpu, n),
        second(cuda_, kGpu, n);
    const GpuVector<int64_t> data(cuda_, kGpu, std::vector<int64_t>(n, 1000));
    const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    data.writeOn(stream, ones);
    for (int i = 0; i < 3; ++i)
      ASSERT_HORING(
          horingAllReduce(data.data(), data.data(), n, horingInt64, horingSum, comm(rank), stream.get()));
    data.readOn(stream, first);
    // Another stream's operation comes after earlier operations on the communicator.
    const GpuVector<int64_t> mine(cuda_, kGpu, twos);
    ASSERT_HORING(
        horingAllReduce(mine.data(), mine.data(), n, horingInt64, horingSum, comm(rank), other.get()));
    mine.readOn(other, second);
    EXPECT_FALSE(stream.idle());
    EXPECT_FALSE(other.idle());
    gate = true;
    stream.synchronize();
    other.synchronize();
    EXPECT_EQ(first.values(), std::vector<int64_t>(n, ranks() * ranks() * ranks()));
    EXPECT_EQ(second.values(), std::vector<int64_t>(n, 2 * ranks()));
    // Which also works after operations on memory of the host, and before.
    int64_t on_host = rank;
    ASSERT_HORING(horingAllReduce(&on_host, &on_host, 1, horingInt64, horingSum, comm(rank), nullptr));
    EXPECT_EQ(on_host, ranks() * (ranks() - 1) / 2);
  });
}

// Of some ranks: others' is on their GPUs.
TEST_P(GpuBuffers, MayBePinnedMemoryOnAStream) {
  onEveryRank(ranks(), [&](int rank) {
    const size_t n = 5000;
    const int right = (rank + 1) % ranks(), left = (rank + ranks() - 1) % ranks();
    const PinnedVector<int64_t> given(cuda_, kGpu, std::vector<int64_t>(n, 1)), sum(cuda_, kGpu, n),
        got(cuda_, kGpu, n);
    const GpuVector<int64_t> there(cuda_, kGpu, std::vector<int64_t>(n, 1));
    const bool is_pinned = rank != 1;
    const int64_t* const from = is_pinned ? given.data() : there.data();
    const GpuStream stream(cuda_, kGpu);
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    ASSERT_HORING(horingAllReduce(from, sum.data(), n, horingInt64, horingSum, comm(rank), stream.get()));
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(horingSend(sum.data(), n, horingInt64, right, comm(rank), stream.get()));
    ASSERT_HORING(
        horingRecv(is_pinned ? got.data() : there.data(), n, horingInt64, left, comm(rank), stream.get()));
    ASSERT_HORING(horingGroupEnd());
    EXPECT_FALSE(stream.idle());
    EXPECT_EQ(sum.values(), std::vector<int64_t>(n)) << "before its turn on the stream";
    gate = true;
    stream.synchronize();
    const std::vector<int64_t> sums(n, ranks());
    EXPECT_EQ(sum.values(), sums);
    EXPECT_EQ(is_pinned ? got.values() : there.read(), sums);
    // Complete on return, without a stream, as all memory of the host.
    ASSERT_HORING(horingAllReduce(given.data(), sum.data(), n, horingInt64, horingSum, comm(rank), nullptr));
    EXPECT_EQ(sum.values(), sums);
  });
}

// The last three have the transports of the first, with kernels and without, once more.
constexpr Way kGpuWays[] = {{"loopback", Meeting::kInitAll, "shm,socket", "auto", 4},
                            {"socket", Meeting::kInitRank, "socket", "ring", 2},
                            {"loopback", Meeting::kInitAll, "shm,socket", "auto", 3, true},
                            {"shm", Meeting::kInitRank, "shm", "auto", 3},
                            {"loopback", Meeting::kInitAll, "shm,socket", "auto", 1},
                            {"socket", Meeting::kInitRank, "socket", "ring", 2, true}};
INSTANTIATE_TEST_SUITE_P(Ways, GpuBuffers, testing::ValuesIn(horing::test::firstUnderSanitizer(3, kGpuWays)));

}  // namespace
