// Kernels of ranks that are processes, or reach each other through their hosts alone. Emulated.
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "gpu_processes.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

// Threads that know nothing of each other, and reach each other through their hosts alone.
class GpuNodeTrouble : public GpuKernelTrouble {
 protected:
  void meet() override { comms_ = makeNodes(2, "shm,socket"); }
  // Each on its GPU and on the node of that name.
  void meetOnNodes(const std::vector<std::string>& nodes) {
    const Setting over("HORING_TRANSPORTS", "shm,socket");
    comms_.assign(nodes.size(), nullptr);
    horingUniqueId id;
    ASSERT_HORING(horingGetUniqueId(&id));
    ASSERT_HORING(horingGroupStart());
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      const CurrentGpu current(cuda_, static_cast<int>(rank));
      const Setting node("HORING_HOSTID", nodes[rank]);
      EXPECT_HORING(
          horingCommInitRank(&comms_[rank], static_cast<int>(nodes.size()), id, static_cast<int>(rank)));
    }
    ASSERT_HORING(horingGroupEnd());
  }
  // On a stream each, the operation that begin() did before.
  void expectSums(const char* what) {
    onEveryRank(2, [&](int rank) {
      on(rank).write(std::vector<float>(8, 1));
      EXPECT_HORING(add(rank, on(rank).data(), nullptr)) << what;
      EXPECT_EQ(on(rank).read(), std::vector<float>(8, 2)) << what;
    });
  }
  bool areStaged(int rank) {
    uint64_t bytes = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &bytes));
    return bytes < 32U << 20;
  }
};

// The proxy thread learns of a kernel before the launch, which returns when the kernel has ended; otherwise it sleeps half a
// second.
TEST_F(GpuNodeTrouble, IsNoneWhereLaunchesBlock) {
  begin();
  const Setting blocking("CUDA_LAUNCH_BLOCKING", "1");
  const auto from = std::chrono::steady_clock::now();
  constexpr int kRounds = 12;
  onEveryRank(2, [&](int rank) {
    const GpuStream stream(cuda_, rank);
    for (int i = 0; i < kRounds; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it sleeps
      EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
    }
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 2 << kRounds));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::milliseconds(kRounds * 250));
}

TEST_F(GpuNodeTrouble, ReplaysOfGraphsNeedNoCallOfTheHost) {
  begin();
  replaySums(cuda_, comms_);
}

TEST_F(GpuNodeTrouble, OfAReplayThatOneRankNeverMakesIsNamed) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  expectNamedWhoNeverReplays();
}

// A kernel waits for a message that is never sent, and nothing else would detect that.
TEST_F(GpuNodeTrouble, OfARecordedMessageThatNeverComesEndsAtTheDeadlineAndReachesAll) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const GpuStream stream(cuda_, 1);
  {
    const CurrentGpu current(cuda_, 1);
    const RecordedGraph graph(cuda_, stream, [&] {
      EXPECT_HORING(horingRecv(on_1_.data(), 8, horingFloat, 0, comm(1), stream.get()));
    });
    graph.launch();
    stream.synchronize();
  }
  EXPECT_TRUE(refuses(add(1, on_1_.data(), stream.get()), horingTimeout,
                      "a message of 32 bytes from rank 0 did not"));
  EXPECT_TRUE(refuses(add(0, on_0_.data(), nullptr), horingRemoteError, "outside of a graph"));
}

// From rank 0 to rank 2 no ring of three has a queue. A thread of the library waits for messages meanwhile.
TEST_F(GpuNodeTrouble, OfQueuesForRecordedMessagesThatFindNoMemoryReachesAll) {
  const Setting algorithm("HORING_ALGO", "ring");
  comms_ = makeNodes(3, "shm,socket");
  onEveryRank(3, [&](int rank) {
    EXPECT_HORING(add(rank, GpuVector<float>(cuda_, rank, std::vector<float>(8, 1)).data(), nullptr));
  });
  const GpuStream stream(cuda_, 0), waits(cuda_, 0);
  const GpuVector<float> never(cuda_, 0, std::vector<float>(8, 1));
  EXPECT_HORING(horingRecv(never.data(), 8, horingFloat, 1, comm(0), waits.get()));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  {
    const CurrentGpu current(cuda_, 0);
    const RecordedGraph graph(cuda_, stream, [&] {
      cuda_.fail("cuMemcpyAsync", 2, 0, 1);
      EXPECT_TRUE(refuses(horingSend(on_0_.data(), 8, horingFloat, 2, comm(0), stream.get()),
                          horingUnhandledCudaError, "copying to a GPU"));
    });
  }
  EXPECT_NE(heardError(0), horingSuccess);
  EXPECT_EQ(heardError(1), horingRemoteError);
  EXPECT_EQ(heardError(2), horingRemoteError);
}

// The queue of the receiver and the link are full: a rank that leaves waits until all the rest is on its way, and that arrives.
TEST_F(GpuNodeTrouble, IsNoneWhereASenderOfRecordedMessagesLeavesBeforeTheyAreReceived) {
  constexpr int kMessages = 20;
  for (const char* const transports : {"shm", "socket"}) {
    comms_ = makeNodes(2, transports);
    onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
    const GpuStream stream(cuda_, 0), other(cuda_, 1);
    const GpuVector<float> all(cuda_, 1, std::vector<float>(8 * kMessages, -1));
    const auto record = [&](int rank, const GpuStream& on_stream, const auto& call) {
      const CurrentGpu current(cuda_, rank);
      return std::make_unique<RecordedGraph>(cuda_, on_stream, [&] {
        EXPECT_HORING(horingGroupStart());
        for (size_t i = 0; i < kMessages; ++i) EXPECT_HORING(call(i));
        EXPECT_HORING(horingGroupEnd());
      });
    };
    auto sends = record(0, stream, [&](size_t) {
      return horingSend(on_0_.data(), 8, horingFloat, 1, comm(0), stream.get());
    });
    const auto receives = record(1, other, [&](size_t i) {
      return horingRecv(all.data() + 8 * i, 8, horingFloat, 0, comm(1), other.get());
    });
    on_0_.write(std::vector<float>(8, 7));
    sends->launch();
    std::thread leaves([&] {
      stream.synchronize();
      sends.reset();
      EXPECT_HORING(horingCommDestroy(std::exchange(comms_[0], nullptr)));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    receives->launch();
    other.synchronize();
    leaves.join();
    EXPECT_EQ(asyncError(1), horingSuccess) << transports;
    EXPECT_EQ(all.read(), std::vector<float>(8 * kMessages, 7)) << transports;
    EXPECT_HORING(horingCommDestroy(std::exchange(comms_[1], nullptr)));
  }
}

TEST_F(GpuNodeTrouble, AbortEndsTheKernelsOfOtherNodes) {
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingRemoteError, "rank 1"));
}

TEST_F(GpuNodeTrouble, OfAPeerThatNeverComesEndsAtTheDeadlineAndReachesIt) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  expectNamedWhoNeverComes();
  // Before, it would have a result: rank 0 has sent its data.
  EXPECT_NE(heardError(1), horingSuccess);
  EXPECT_NE(add(1, on_1_.data(), nullptr), horingSuccess);
}

TEST_F(GpuNodeTrouble, OfACallThatOneRankAloneHasNoPlanForIsNamedLongBeforeTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_TRUE(refuses(horingBroadcast(on_1_.data(), on_1_.data(), 8, horingFloat, 0, comm(1), nullptr),
                      horingInvalidUsage, "ranks disagree about launch #1"));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingInvalidUsage, "rank 1 called broadcast"));
  EXPECT_EQ(asyncError(1), horingInvalidUsage);
}

// Each waits for data of the other.
TEST_F(GpuNodeTrouble, OfCallsThatNeitherRankHasAPlanForIsNamed) {
  begin();
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(
        horingBroadcast(on(rank).data(), on(rank).data(), 8, horingFloat, 1 - rank, comm(rank), nullptr),
        horingInvalidUsage, "ranks disagree about launch #1"));
    EXPECT_EQ(asyncError(rank), horingInvalidUsage) << "it sticks";
  });
}

// On nodes of three ranks and one, by the schedules of hosts.
TEST_F(GpuNodeTrouble, IsNoneWhereNodesDifferInRanks) {
  constexpr int ranks = 4, block_count = 9000;
  for (const char* const name : {"ho_ring", "ho_direct", "all_reduce=ho_halving;broadcast=ho_chain"}) {
    const Setting algorithm("HORING_ALGO", name);
    meetOnNodes({"large", "large", "large", "small"});
    onEveryRank(ranks, [&](int rank) {
      const std::vector<int64_t> own(block_count, rank + 1), all(block_count * ranks, rank + 1);
      const GpuVector<int64_t> block(cuda_, rank, own), vector(cuda_, rank, all);
      const GpuStream stream(cuda_, rank);
      EXPECT_HORING(horingAllReduce(block.data(), block.data(), block_count, horingInt64, horingSum,
                                    comm(rank), stream.get()));
      stream.synchronize();
      EXPECT_EQ(block.read(), std::vector<int64_t>(block_count, 1 + 2 + 3 + 4)) << name;
      EXPECT_HORING(horingReduceScatter(vector.data(), block.data(), block_count, horingInt64, horingSum,
                                        comm(rank), stream.get()));
      stream.synchronize();
      EXPECT_EQ(block.read(), std::vector<int64_t>(block_count, 1 + 2 + 3 + 4)) << name;
      block.write(own);
      EXPECT_HORING(
          horingAllGather(block.data(), vector.data(), block_count, horingInt64, comm(rank), stream.get()));
      stream.synchronize();
      std::vector<int64_t> gathered;
      for (int from = 0; from < ranks; ++from) gathered.insert(gathered.end(), block_count, from + 1);
      EXPECT_EQ(vector.read(), gathered) << name;
      for (int root = 0; root < ranks; ++root) {
        block.write(own);
        EXPECT_HORING(horingBroadcast(block.data(), block.data(), block_count, horingInt64, root, comm(rank),
                                      stream.get()));
        stream.synchronize();
        EXPECT_EQ(block.read(), std::vector<int64_t>(block_count, root + 1)) << name;
      }
      EXPECT_FALSE(areStaged(rank));
    });
    for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  }
}

// No other rank need make it, not even for it to find out whether kernels serve all.
TEST_F(GpuNodeTrouble, IsNoneWhereARankAloneMovesNothing) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  const GpuStream stream(cuda_, 0);
  const auto nothing = [&](void* on) {
    return horingAllReduce(on_0_.data(), on_0_.data(), 0, horingFloat, horingSum, comm(0), on);
  };
  EXPECT_HORING(nothing(stream.get()));
  EXPECT_HORING(nothing(nullptr));
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(nothing(stream.get()));
  EXPECT_HORING(nothing(nullptr));
  EXPECT_HORING(horingGroupEnd());
  expectSums("after nothing");
}

// A finished rank may leave: its messages arrive, and the other ranks continue.
TEST_F(GpuNodeTrouble, IsNoneWhereARankLeavesWhenItIsDone) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  std::atomic<bool> gate{false};
  other.waitFor(gate);
  const auto broadcast = [&](int rank, float* data, void* on) {
    return horingBroadcast(data, data, 8, horingFloat, 0, comm(rank), on);
  };
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(broadcast(rank, this->on(rank).data(), rank == 0 ? stream.get() : other.get()));
  });
  stream.synchronize();
  const std::vector<float> sum = on_0_.read();
  std::thread leaves([&] { EXPECT_HORING(horingCommDestroy(std::exchange(comms_[0], nullptr))); });
  gate = true;
  leaves.join();
  other.synchronize();
  EXPECT_EQ(on_1_.read(), sum);
}

TEST_F(GpuNodeTrouble, IsNoneWhereAGroupNamesCommunicatorsInAnotherOrder) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  std::vector<horingComm_t> others = makeNodes(2, "shm,socket");
  onEveryRank(2, [&](int rank) {
    const std::vector<float> ones(8, 1);
    const GpuVector<float> data(cuda_, rank, ones), more(cuda_, rank, ones);
    const GpuStream stream(cuda_, rank);
    const horingComm_t here = comm(rank), there = others[static_cast<size_t>(rank)];
    for (int round = 0; round < 2; ++round) {
      EXPECT_HORING(horingGroupStart());
      for (const bool turn : {rank == 0, rank != 0}) {
        float* const at = turn ? data.data() : more.data();
        EXPECT_HORING(horingAllReduce(at, at, 8, horingFloat, horingSum, turn ? here : there, stream.get()));
      }
      EXPECT_HORING(horingGroupEnd());
    }
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(8, 4));
    EXPECT_EQ(more.read(), std::vector<float>(8, 4));
  });
  for (const horingComm_t other : others) EXPECT_HORING(horingCommDestroy(other));
}

TEST_F(GpuNodeTrouble, WithKernelsOfOneRankIsNoneForTheHostsOfAll) {
  constexpr std::pair<const char*, int> kTroubles[] = {
      {"cuModuleLoadData", 218}, {"cuMemAlloc", 2}, {"cuDeviceGetUuid", 1}};
  for (const auto& [function, error] : kTroubles)
    for (const int successes : {0, 1}) {  // of one rank
      meet();
      cuda_.fail(function, error, successes);
      onEveryRank(
          2, [&, name = function](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)) << name; });
      cuda_.fail(nullptr, 0);
      EXPECT_TRUE(areStaged(0) && areStaged(1)) << function;
      expectSums(function);
      for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
    }
}

// Three ranks, each of which allocates a few times: whichever allocation fails, messages arrive.
TEST_F(GpuNodeTrouble, WithMemoryForMessagesOfOneRankIsNoneForTheMessagesOfAll) {
  for (int successes = 0; successes < 18; ++successes) {
    comms_ = makeNodes(3, "shm,socket");
    // What must exist before any kernel runs.
    onEveryRank(3, [&](int rank) {
      const GpuVector<float> to_self(cuda_, rank, std::vector<float>(8, 1));
      EXPECT_HORING(horingGroupStart());
      EXPECT_HORING(horingSend(to_self.data(), 8, horingFloat, rank, comm(rank), nullptr));
      EXPECT_HORING(horingRecv(to_self.data(), 8, horingFloat, rank, comm(rank), nullptr));
      EXPECT_HORING(horingGroupEnd());
    });
    cuda_.fail("cuMemHostAlloc", 2, successes, 1);
    onEveryRank(3, [&](int rank) {
      const GpuVector<float> data(cuda_, rank, std::vector<float>(8, 1));
      (void)add(rank, data.data(), nullptr);
    });
    cuda_.fail(nullptr, 0);
    onEveryRank(3, [&](int rank) {
      const GpuVector<float> data(cuda_, rank, std::vector<float>(8, static_cast<float>(rank)));
      if (rank == 0) {
        EXPECT_HORING(horingSend(data.data(), 8, horingFloat, 2, comm(0), nullptr)) << successes;
      } else if (rank == 2) {
        EXPECT_HORING(horingRecv(data.data(), 8, horingFloat, 0, comm(2), nullptr)) << successes;
      }
      EXPECT_EQ(data.read(), std::vector<float>(8, rank == 1 ? 1 : 0)) << successes;
    });
    for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  }
}

// A kernel waits for a message of a rank that has left; this is detected before any deadline.
TEST_F(GpuNodeTrouble, OfARankThatLeftInsteadOfSendingIsNamed) {
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(horingRecv(on_0_.data(), 8, horingFloat, 1, comm(0), stream.get()));
  EXPECT_HORING(horingCommDestroy(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingRemoteError, "rank 1 left"));
}

TEST_F(GpuNodeTrouble, HaveAsManySlotsAsTransportsTake) {
  const Setting window("HORING_TESTS_WINDOW", "64"), slots("HORING_TESTS_SLOTS", "128"),
      more("HORING_TESTS_SOCKET_SLOTS", "128");
  begin();
  replaySums(cuda_, comms_);
}

// The other rank has its plan, and does not ask.
TEST_F(GpuNodeTrouble, WithAPlanOfOneRankReachesAllLongBeforeTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  begin();
  cuda_.fail("cuMemcpyAsync", 2, 4, 1);
  std::vector<horingResult_t> ends(2);
  const auto from = std::chrono::steady_clock::now();
  onEveryRank(2, [&](int rank) {
    const GpuVector<float> gathered(cuda_, rank, std::vector<float>(16, 0));
    ends[static_cast<size_t>(rank)] =
        horingAllGather(on(rank).data(), gathered.data(), 8, horingFloat, comm(rank), nullptr);
  });
  cuda_.fail(nullptr, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(20));
  const int failed = ends[0] == horingUnhandledCudaError ? 0 : 1;
  EXPECT_EQ(ends[static_cast<size_t>(failed)], horingUnhandledCudaError);
  EXPECT_EQ(ends[static_cast<size_t>(1 - failed)], horingRemoteError);
  EXPECT_TRUE(refuses(add(1 - failed, on(1 - failed).data(), nullptr), horingRemoteError,
                      ("rank " + std::to_string(failed)).c_str()));
}

// Their kernels may never run at once.
TEST_F(GpuNodeTrouble, OfProcessesThatShareAGpuIsLeftToTheirHosts) {
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2,
              [&](int rank) { EXPECT_HORING(add(rank, rank == 0 ? on_0_.data() : there.data(), nullptr)); });
  EXPECT_TRUE(areStaged(0) && areStaged(1));
  EXPECT_EQ(there.read(), std::vector<float>(8, 2));
}

// Processes whose kernels serve them after their first collective, or, of two, messages.
class GpuProcess : public GpuProcesses {
 protected:
  // By kernels; not by hosts, which would fail. Of more data than queues hold at once.
  void runCollectives() {
    const auto ranks = static_cast<size_t>(me_.ranks);
    const size_t n = 200'003;
    const auto ones = [](size_t count) { return std::vector<float>(count, 1); };
    const GpuVector<float> sum(cuda_, me_.rank, ones(n)), gathered(cuda_, me_.rank, ones(n * ranks));
    const GpuStream stream(cuda_, me_.rank);
    EXPECT_HORING(add(gathered, 8, nullptr));  // by now all have agreed on how
    cuda_.fail("cuStreamWaitValue32", 999);
    float expected = 1;
    for (int round = 0; round < 2; ++round) {
      EXPECT_HORING(add(sum, n, stream.get()));
      EXPECT_HORING(horingAllGather(sum.data(), gathered.data(), n, horingFloat, comm_, stream.get()));
      EXPECT_HORING(
          horingReduceScatter(gathered.data(), sum.data(), n, horingFloat, horingSum, comm_, stream.get()));
      EXPECT_HORING(
          horingBroadcast(sum.data(), sum.data(), n, horingFloat, me_.ranks - 1, comm_, stream.get()));
      expected *= static_cast<float>(ranks * ranks);
    }
    stream.synchronize();
    cuda_.fail(nullptr, 0);
    EXPECT_EQ(sum.read(), std::vector<float>(n, expected));
    EXPECT_EQ(gathered.read(), std::vector<float>(n * ranks, expected / static_cast<float>(ranks)));
  }
  // With every rank at once, including ranks on other nodes, though no host copies anything.
  void replayMessages() {
    const size_t n = 150'001;
    const auto ranks = static_cast<size_t>(me_.ranks);
    const std::vector<size_t> counts(ranks, n);
    std::vector<float> expected;
    for (size_t peer = 0; peer < ranks; ++peer) expected.insert(expected.end(), n, static_cast<float>(peer));
    const GpuVector<float> from(cuda_, me_.rank, std::vector<float>(ranks * n, static_cast<float>(me_.rank))),
        to(cuda_, me_.rank, std::vector<float>(ranks * n, -1));
    const GpuStream stream(cuda_, me_.rank);
    const CurrentGpu current(cuda_, me_.rank);
    cuda_.fail("cuStreamWaitValue32", 999);
    const RecordedGraph graph(cuda_, stream, [&] {
      EXPECT_HORING(horingAlltoAllV(from.data(), counts.data(), nullptr, to.data(), counts.data(), nullptr,
                                    horingFloat, comm_, stream.get()));
      EXPECT_HORING(horingGroupStart());
      for (size_t peer = 0; peer < ranks; ++peer) {
        EXPECT_HORING(
            horingSend(to.data() + peer * n, n, horingFloat, static_cast<int>(peer), comm_, stream.get()));
        EXPECT_HORING(
            horingRecv(from.data() + peer * n, n, horingFloat, static_cast<int>(peer), comm_, stream.get()));
      }
      EXPECT_HORING(horingGroupEnd());
    });
    for (int replay = 0; replay < 3; ++replay) graph.launch();
    stream.synchronize();
    cuda_.fail(nullptr, 0);
    EXPECT_EQ(to.read(), expected);
    EXPECT_EQ(from.read(), std::vector<float>(ranks * n, static_cast<float>(me_.rank)));
  }
  // From 0 to 2 by hosts, then to 1 by hosts, then back to 0 by a kernel: 0 waits for the last in a group with the first.
  void passAround() {
    const size_t n = 150'001;
    const GpuVector<float> data(cuda_, me_.rank, std::vector<float>(n, 5)),
        back(cuda_, me_.rank, std::vector<float>(n, -1));
    const GpuStream stream(cuda_, me_.rank);
    const auto send = [&](int peer) {
      EXPECT_HORING(horingSend(data.data(), n, horingFloat, peer, comm_, stream.get()));
    };
    const auto receive = [&](const GpuVector<float>& into, int peer) {
      EXPECT_HORING(horingRecv(into.data(), n, horingFloat, peer, comm_, stream.get()));
    };
    if (me_.rank == 0) {
      EXPECT_HORING(horingGroupStart());
      receive(back, 1);
      send(2);
      EXPECT_HORING(horingGroupEnd());
    } else if (me_.rank == 1) {
      receive(data, 2);
      send(0);
    } else if (me_.rank == 2) {
      receive(data, 0);
      send(1);
    }
    stream.synchronize();
    EXPECT_EQ(back.read(), std::vector<float>(n, me_.rank == 0 ? 5 : -1));
  }
  void exchangeAsNeighbors() {
    const GpuVector<float> first(cuda_, me_.rank, {1});
    // Two find out by messages alone that kernels serve them.
    if (me_.ranks > 2) {
      EXPECT_HORING(add(first, 1, nullptr));
    } else {
      EXPECT_HORING(me_.rank == 0 ? horingSend(first.data(), 1, horingFloat, 1, comm_, nullptr)
                                  : horingRecv(first.data(), 1, horingFloat, 0, comm_, nullptr));
    }
    cuda_.fail("cuStreamWaitValue32", 999);  // what hosts carry on streams
    exchangeMessagesTwice();
    cuda_.fail(nullptr, 0);
  }
  void exchangeWithAnotherNode() {
    EXPECT_HORING(add(GpuVector<float>(cuda_, me_.rank, {1}), 1, nullptr));
    exchangeMessagesTwice();
    replayMessages();
    // Rank 3 does not take part, and leaves while the others are communicating.
    passAround();
  }
  // As rank 0, next to others that run collectives: the traffic of kernels.
  uint64_t bytesOfKernels(int ranks) {
    host("GpuProcess.DISABLED_RunsCollectives", ranks);
    const uint64_t before = memoryBytes();
    runCollectives();
    const uint64_t taken = memoryBytes() - before;
    // A rank that leaves now finds that the others have closed its memory.
    for (const auto& other : others_) EXPECT_EQ(other->wait(), 0);
    EXPECT_HORING(horingCommDestroy(std::exchange(comm_, nullptr)));
    others_.clear();
    return taken;
  }
  // The first number behind these words in the log of that.
  template <typename Call>
  static int toldBehind(const std::string& words, const Call& call) {
    const Setting debug("HORING_DEBUG", "info");
    testing::internal::CaptureStderr();
    call();
    const std::string log = testing::internal::GetCapturedStderr();
    const size_t at = log.find(words);
    return at == std::string::npos ? -1 : std::atoi(log.c_str() + at + words.size());
  }
  // How many parts any plan may count on.
  int partsOfKernels(int ranks) {
    return toldBehind(" KiB, ", [&] { (void)bytesOfKernels(ranks); });
  }
};

TEST_F(GpuProcess, DISABLED_RunsCollectives) {
  join(Membership::fromEnvironment());
  runCollectives();
}

TEST_F(GpuProcess, ReachesTheGpusOfOthersOfItsNodeWithoutTheHost) {
  const int live = cuda_.live();
  // 32 MiB of the GPU, and host memory that shows running kernels, but no queues and no connections.
  for (const int ranks : {2, 3, 4}) EXPECT_LT(bytesOfKernels(ranks), (33U << 20) + (1U << 16)) << ranks;
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(GpuProcess, DISABLED_ExchangesMessages) {
  join(Membership::fromEnvironment());
  exchangeAsNeighbors();
}

TEST_F(GpuProcess, SendsMessagesToTheGpusOfItsNodeWithoutTheHost) {
  for (const int ranks : {2, 3}) {
    host("GpuProcess.DISABLED_ExchangesMessages", ranks);
    exchangeAsNeighbors();
    expectOthersEndWell();
  }
}

TEST_F(GpuProcess, DISABLED_ExchangesMessagesWithAnotherNode) {
  joinTwoNodes();
  exchangeWithAnotherNode();
}

// Kernels carry some messages of a group, and hosts the others, at the same time.
TEST_F(GpuProcess, SendsMessagesToItsNodeAndToAnotherInOneGroup) {
  hostTwoNodes("GpuProcess.DISABLED_ExchangesMessagesWithAnotherNode");
  exchangeWithAnotherNode();
  expectOthersEndWell();
}

// Links between hosts have few channels; queues between kernels need none of them.
TEST_F(GpuProcess, HasMorePartsThanLinksHaveChannelsWhereAllRanksAreNeighbors) {
  for (const int ranks : {2, 4}) EXPECT_GT(partsOfKernels(ranks), 4) << ranks;
  cuda_.fail("cuIpcGetMemHandle", 1);
  EXPECT_EQ(partsOfKernels(2), 4);
}

// Lanes of ho_ring wait for each other by way of other ranks.
constexpr const char* kOrderOfOthers = "ThreadSanitizer sees no order that other processes make";

TEST_F(GpuProcess, DISABLED_RunsCollectivesOfTwoNodes) {
  joinTwoNodes();
  runCollectives();
}

// A ring inside a node is to keep up with what hosts carry between nodes, over more than one link, by however many threads.
TEST_F(GpuProcess, HasMorePartsInRingsThatReachOtherNodes) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << kOrderOfOthers;
  const auto partsOf = [&](const char* algorithm, const std::string& plan, const char* proxies) {
    const Setting forced("HORING_ALGO", algorithm), several("HORING_TESTS_GPU_PROXIES", proxies);
    return toldBehind(plan, [&] {
      hostTwoNodes("GpuProcess.DISABLED_RunsCollectivesOfTwoNodes");
      runCollectives();
      expectOthersEndWell();
    });
  };
  // As many as the GPU's 16 blocks allow.
  EXPECT_EQ(partsOf("ho_ring", "ho_ring all_gather is kernels of 2 lanes x ", "1"), 8);
  EXPECT_EQ(partsOf("ho_ring", "ho_ring reduce_scatter is kernels of 2 lanes x ", "3"), 8);
  EXPECT_EQ(partsOf("ring", "ring all_gather is kernels of 1 lanes x ", "2"), 16);
  // To many ranks at once; and by hosts alone.
  EXPECT_EQ(partsOf("direct", "direct all_gather is kernels of 1 lanes x ", "1"), 4);
  cuda_.fail("cuIpcGetMemHandle", 1);
  EXPECT_EQ(partsOf("ho_ring", "ho_ring all_gather is kernels of 2 lanes x ", "1"), 4);
}

TEST_F(GpuProcess, DISABLED_IsAloneInItsNode) {
  const Membership membership = Membership::fromEnvironment();
  const Setting node("HORING_HOSTID", membership.rank < 3 ? "node 0" : "node 1"),
      group("HORING_GROUP", membership.rank < 2 ? "a" : "b");
  join(membership);
  runCollectives();
}

// Groups are of one size, and nodes are not.
TEST_F(GpuProcess, MayBeAloneInItsNodeBesideOthers) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << kOrderOfOthers;
  const Setting forced("HORING_ALGO", "ho_ring"), node("HORING_HOSTID", "node 0"), group("HORING_GROUP", "a");
  host("GpuProcess.DISABLED_IsAloneInItsNode", 4);
  runCollectives();
  expectOthersEndWell();
}

// One end alone cannot, and both take the other way.
TEST_F(GpuProcess, GoesThroughTheHostWhereMemoryCannotBeOpened) {
  struct Trouble {
    const char* function;
    int successes;
  };
  const int live = cuda_.live();
  for (const auto& [function, successes] :
       {Trouble{"cuIpcGetMemHandle", 0}, Trouble{"cuIpcOpenMemHandle", 0}, Trouble{"cuMemGetAddressRange", 0},
        Trouble{"cuMemGetAddressRange", 1}, Trouble{"a write to another GPU", 0}}) {
    cuda_.fail(function, 1, successes);
    EXPECT_GT(bytesOfKernels(2), 40U << 20) << function;
  }
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(GpuProcess, DISABLED_TakesPartOnceAndDies) {
  join(Membership::fromEnvironment());
  const GpuVector<float> data(cuda_, 1, std::vector<float>(8, 1));
  ASSERT_HORING(add(data, 8, nullptr));
  ASSERT_EQ(data.read(), std::vector<float>(8, 2));
  ::raise(SIGKILL);
}

TEST_F(GpuProcess, ThatDiesEndsTheKernelsThatWaitForIt) {
  host("GpuProcess.DISABLED_TakesPartOnceAndDies");
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
  const GpuStream stream(cuda_, 0);
  for (int i = 0; i < 2; ++i) ASSERT_HORING(add(data, 8, stream.get()));
  stream.synchronize();
  const int status = others_.front()->wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_TRUE(refuses(add(data, 8, stream.get()), horingRemoteError, "rank 1"));
  // The stream is usable again.
  const PinnedVector<float> threes(cuda_, 0, std::vector<float>(8, 3));
  data.writeOn(stream, threes);
  stream.synchronize();
  EXPECT_EQ(data.read(), threes.values());
}

TEST_F(GpuProcess, DISABLED_SendsOnceAndDiesLater) {
  join(Membership::fromEnvironment());
  const GpuVector<float> data(cuda_, 1, std::vector<float>(8, 1));
  ASSERT_HORING(add(data, 8, nullptr));
  ASSERT_HORING(horingSend(data.data(), 8, horingFloat, 0, comm_, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ::raise(SIGKILL);
}

// The thread that watches kernels sleeps by then, and sees that some run, including kernels that a graph replays.
TEST_F(GpuProcess, ThatDiesEndsTheKernelsThatWaitForItsMessages) {
  for (const bool is_replayed : {false, true}) {
    host("GpuProcess.DISABLED_SendsOnceAndDiesLater");
    const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
    const GpuStream stream(cuda_, 0);
    ASSERT_HORING(add(data, 8, stream.get()));
    stream.synchronize();
    const auto receive = [&] {
      EXPECT_HORING(horingRecv(data.data(), 8, horingFloat, 1, comm_, stream.get()));
    };
    std::vector<std::unique_ptr<RecordedGraph>> graphs;
    {
      const CurrentGpu current(cuda_, 0);
      for (int i = 0; i < 3; ++i) graphs.push_back(std::make_unique<RecordedGraph>(cuda_, stream, receive));
    }
    receive();
    stream.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    if (is_replayed) {
      graphs.front()->launch();
    } else {
      receive();
    }
    stream.synchronize();
    (void)others_.front()->wait();
    EXPECT_TRUE(refuses(add(data, 8, stream.get()), horingRemoteError, "rank 1")) << is_replayed;
    graphs.clear();
    EXPECT_HORING(horingCommDestroy(std::exchange(comm_, nullptr)));
    others_.clear();
  }
}

}  // namespace
