// Sends and receives on GPUs by kernels: emulated, or on the GPUs of this machine with HORING_TESTS_ON_GPU in the environment.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::firstUnderSanitizer;
using horing::test::GpuStream;
using horing::test::GpuVector;

using Floats = GpuVector<float>;

std::vector<float> message(int from, int to, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<size_t>(from * 53 + to * 17) + i * 3) % 1009);
  return values;
}

// Ranks that are threads, each with its own GPU.
class GpuMessageRanks : public testing::Test {
 protected:
  // `transports`: each rank is a node, and these are their only links.
  explicit GpuMessageRanks(int ranks, const char* transports = nullptr)
      : ranks_(ranks), transports_(transports) {}
  void SetUp() override {
    if (cuda_.gpus() < ranks()) GTEST_SKIP() << "no GPU here for each of " << ranks() << " ranks";
    cuda_.setKernels(&horing::test::emulatedKernels());
    comms_ = transports_ ? makeNodes(ranks(), transports_) : makeCommunicators(ranks(), Meeting::kInitAll);
  }
  void TearDown() override {
    if (cuda_.loaded()) cuda_.fail(nullptr, 0);
    std::erase(comms_, nullptr);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    if (cuda_.loaded()) cuda_.setKernels(nullptr);
  }
  int ranks() const { return ranks_; }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // From here on kernels serve all, and what goes through hosts on a stream fails.
  void begin() {
    onEveryRank(ranks(), [&](int rank) {
      const Floats data(cuda_, rank, {1});
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), 1, horingFloat, horingSum, comm(rank), nullptr));
    });
    cuda_.fail("cuStreamWaitValue32", 999);
  }

  // What one rank has sent to every one, itself included, and got from it.
  struct Box {
    std::unique_ptr<Floats> sent, received;
  };
  std::vector<Box> boxes(int rank, size_t count) {
    std::vector<Box> boxes;
    for (int peer = 0; peer < ranks(); ++peer)
      boxes.push_back({std::make_unique<Floats>(cuda_, rank, message(rank, peer, count)),
                       std::make_unique<Floats>(cuda_, rank, std::vector<float>(count, -1))});
    return boxes;
  }
  // In a group: each on the stream given by `stream(peer)`.
  template <typename Stream>
  void exchange(int rank, const std::vector<Box>& boxes, size_t count, const Stream& stream) {
    EXPECT_HORING(horingGroupStart());
    for (int peer = 0; peer < ranks(); ++peer) {
      const Box& box = boxes[static_cast<size_t>(peer)];
      EXPECT_HORING(horingSend(box.sent->data(), count, horingFloat, peer, comm(rank), stream(peer)));
      EXPECT_HORING(horingRecv(box.received->data(), count, horingFloat, peer, comm(rank), stream(peer)));
    }
    EXPECT_HORING(horingGroupEnd());
  }
  void expectReceived(int rank, const std::vector<Box>& boxes, size_t count) {
    for (int peer = 0; peer < ranks(); ++peer)
      EXPECT_EQ(boxes[static_cast<size_t>(peer)].received->read(), message(peer, rank, count))
          << "from rank " << peer;
  }

  const int ranks_;
  const char* const transports_;
  const FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
};

struct World {
  int ranks;
  const char* transports;
};
std::string nameOf(const testing::TestParamInfo<World>& each) {
  return std::to_string(each.param.ranks) + (!each.param.transports            ? "OfOneProcess"
                                             : each.param.transports[1] == 'o' ? "NodesBySockets"
                                                                               : "NodesByMemory");
}

class GpuMessages : public GpuMessageRanks, public testing::WithParamInterface<World> {
 protected:
  GpuMessages() : GpuMessageRanks(GetParam().ranks, GetParam().transports) {}
};

class GpuMessagesInGraphs : public GpuMessageRanks, public testing::WithParamInterface<World> {
 protected:
  GpuMessagesInGraphs() : GpuMessageRanks(GetParam().ranks, GetParam().transports) {}
  // Whose plans have no queues to most ranks.
  const Setting algorithm_{"HORING_ALGO", "ring"};
};

#ifdef HORING_TEST_TSAN  // where each thread of a GPU is one of the system
constexpr size_t kCounts[] = {1, 3000};
#else
constexpr size_t kCounts[] = {0, 1, 3000, 200'003};
#endif

TEST_P(GpuMessages, ArriveOnStreamsAndWithout) {
  begin();
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t count : kCounts) {
      const GpuStream stream(cuda_, rank);
      const std::vector<Box> later = boxes(rank, count), now = boxes(rank, count);
      exchange(rank, later, count, [&](int) { return stream.get(); });
      stream.synchronize();
      expectReceived(rank, later, count);
      exchange(rank, now, count, [](int) { return nullptr; });
      expectReceived(rank, now, count);
    }
  });
}

TEST_P(GpuMessages, OfOneGroupMayBeOnSeveralStreams) {
  begin();
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = 3000;
    const GpuStream one(cuda_, rank), other(cuda_, rank);
    const std::vector<Box> all = boxes(rank, count);
    exchange(rank, all, count, [&](int peer) { return peer % 2 == 0 ? one.get() : other.get(); });
    // Both are behind all of it.
    one.synchronize();
    other.synchronize();
    expectReceived(rank, all, count);
  });
}

// Between two ranks alone, while the others make no call.
TEST_P(GpuMessages, NeedNoCallOfOthersAndComeInOrder) {
  begin();
  constexpr size_t count = 5000;
  const int launches = FakeCuda::isReal() ? 0 : cuda_.launches();
  onEveryRank(2, [&](int rank) {
    const GpuStream stream(cuda_, rank);
    std::vector<std::unique_ptr<Floats>> data;
    for (int i = 0; i < 3; ++i) {
      const size_t n = count + static_cast<size_t>(i);
      data.push_back(
          std::make_unique<Floats>(cuda_, rank, rank == 0 ? message(i, 1, n) : std::vector<float>(n)));
      EXPECT_HORING(rank == 0 ? horingSend(data.back()->data(), n, horingFloat, 1, comm(0), stream.get())
                              : horingRecv(data.back()->data(), n, horingFloat, 0, comm(1), stream.get()));
    }
    stream.synchronize();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(data[static_cast<size_t>(i)]->read(), message(i, 1, count + static_cast<size_t>(i)));
  });
  if (!FakeCuda::isReal()) {
    EXPECT_EQ(cuda_.launches() - launches, 6);
  }
}

// Kernels do not reach memory of the host.
TEST_P(GpuMessages, MayBeInAGroupWithMessagesOfTheHost) {
  begin();
  onEveryRank(2, [&](int rank) {
    constexpr size_t count = 3000;
    const int peer = 1 - rank;
    const std::vector<float> host = message(rank, peer, count);
    std::vector<float> from_host(count);
    const Floats sent(cuda_, rank, message(rank, peer + 7, count)),
        from_gpu(cuda_, rank, std::vector<float>(count));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(horingSend(host.data(), count, horingFloat, peer, comm(rank), nullptr));
    EXPECT_HORING(horingSend(sent.data(), count, horingFloat, peer, comm(rank), nullptr));
    EXPECT_HORING(horingRecv(from_host.data(), count, horingFloat, peer, comm(rank), nullptr));
    EXPECT_HORING(horingRecv(from_gpu.data(), count, horingFloat, peer, comm(rank), nullptr));
    EXPECT_HORING(horingGroupEnd());
    EXPECT_EQ(from_host, message(peer, rank, count));
    EXPECT_EQ(from_gpu.read(), message(peer, rank + 7, count));
  });
}

TEST_P(GpuMessages, ComeBehindTheCollectivesOfTheirGroupAndBeforeThoseAfterIt) {
  begin();
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = 4000;
    const GpuStream stream(cuda_, rank);
    const Floats data(cuda_, rank, std::vector<float>(count, 1)),
        got(cuda_, rank, std::vector<float>(count, 0));
    const int next = (rank + 1) % ranks(), before = (rank + ranks() - 1) % ranks();
    for (int round = 0; round < 3; ++round) {
      EXPECT_HORING(horingGroupStart());
      EXPECT_HORING(horingSend(data.data(), count, horingFloat, next, comm(rank), stream.get()));
      EXPECT_HORING(horingRecv(got.data(), count, horingFloat, before, comm(rank), stream.get()));
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), count, horingFloat, horingSum, comm(rank), stream.get()));
      EXPECT_HORING(horingGroupEnd());
      EXPECT_HORING(
          horingAllReduce(got.data(), data.data(), count, horingFloat, horingMax, comm(rank), stream.get()));
    }
    stream.synchronize();
    const auto n = static_cast<float>(ranks());
    EXPECT_EQ(data.read(), std::vector<float>(count, n * n * n));
  });
}

// All-to-all, gather and scatter with blocks that differ are messages to kernels.
TEST_P(GpuMessages, AreWhatCollectivesWithBlocksThatDifferAreMadeOf) {
  begin();
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const auto n = static_cast<size_t>(ranks());
    const int root = ranks() - 1;
    // What rank `from` has for `to`: nothing for some.
    const auto countOf = [](size_t from, size_t to) { return (from + 2 * to) % 3 * 1500; };
    std::vector<size_t> sends, receives, blocks;
    size_t sent = 0, received = 0, all = 0;
    for (size_t peer = 0; peer < n; ++peer) {
      const auto own = static_cast<size_t>(rank);
      sends.push_back(countOf(own, peer));
      receives.push_back(countOf(peer, own));
      blocks.push_back(countOf(peer, 0));
      sent += sends.back();
      received += receives.back();
      all += blocks.back();
    }
    const size_t block = blocks[static_cast<size_t>(rank)];
    const auto expectSame = [&](size_t in, size_t out, const auto& call) {
      const std::vector<float> send = message(rank, 0, in), before(out, -1);
      std::vector<float> expected = before;
      EXPECT_HORING(call(send.data(), expected.data(), nullptr));
      const Floats from(cuda_, rank, send), to(cuda_, rank, before);
      const GpuStream stream(cuda_, rank);
      for (void* const on : {stream.get(), static_cast<void*>(nullptr)}) {
        to.write(before);
        EXPECT_HORING(call(in > 0 ? from.data() : nullptr, out > 0 ? to.data() : nullptr, on));
        stream.synchronize();
        EXPECT_EQ(to.read(), expected);
      }
    };
    for (int round = 0; round < 2; ++round) {
      expectSame(sent, received, [&](const float* send, float* receive, void* stream) {
        return horingAlltoAllV(send, sends.data(), nullptr, receive, receives.data(), nullptr, horingFloat,
                               comm, stream);
      });
      expectSame(block, all, [&](const float* send, float* receive, void* stream) {
        return horingGatherV(send, block, receive, blocks.data(), nullptr, horingFloat, root, comm, stream);
      });
      expectSame(all, block, [&](const float* send, float* receive, void* stream) {
        return horingScatterV(send, blocks.data(), nullptr, receive, block, horingFloat, root, comm, stream);
      });
    }
  });
}

// Before kernels serve all ranks, hosts carry them: on all ranks alike.
TEST_P(GpuMessages, GoThroughHostsBeforeTheFirstCollective) {
  const auto round = [&] {
    onEveryRank(ranks(), [&](int rank) {
      constexpr size_t count = 3000;
      const GpuStream stream(cuda_, rank);
      const std::vector<Box> all = boxes(rank, count);
      exchange(rank, all, count, [&](int) { return stream.get(); });
      stream.synchronize();
      expectReceived(rank, all, count);
    });
  };
  const int launches = FakeCuda::isReal() ? 0 : cuda_.launches();
  round();
  if (!FakeCuda::isReal()) {
    EXPECT_EQ(cuda_.launches(), launches);
  }
  begin();
  round();
}

// A rank may learn that kernels serve all ranks before another one does; the message before goes through the hosts at both ends.
TEST_P(GpuMessages, MeetWhereOneRankIsAheadOfTheFirstCollective) {
  constexpr size_t count = 3000;
  const auto meet = [&](int rank, bool is_late) {
    const GpuStream stream(cuda_, rank);
    const Floats data(cuda_, rank, std::vector<float>(count, rank == 0 ? 3 : 1));
    if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (rank == 0) {
      EXPECT_HORING(horingSend(data.data(), count, horingFloat, 1, comm(0), stream.get()));
    }
    if (rank == 1) {
      EXPECT_HORING(horingRecv(data.data(), count, horingFloat, 0, comm(1), stream.get()));
    }
    EXPECT_HORING(
        horingAllReduce(data.data(), data.data(), count, horingFloat, horingMax, comm(rank), stream.get()));
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(count, 3));
  };
  // All are known to have a GPU.
  onEveryRank(ranks(), [&](int rank) {
    const std::vector<Box> all = boxes(rank, count);
    exchange(rank, all, count, [](int) { return nullptr; });
  });
  onEveryRank(ranks(), [&](int rank) { meet(rank, rank == 1); });
  onEveryRank(ranks(), [&](int rank) { meet(rank, rank == 1); });
}

// Both go through the same queues, whatever their streams.
TEST_P(GpuMessages, WaitForACollectiveBeforeThemOnAnotherStream) {
  begin();
  std::atomic<bool> gate{false};
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate = true;
  });
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = 60'000;  // of which each queue has a part
    const GpuStream one(cuda_, rank), other(cuda_, rank);
    const Floats data(cuda_, rank, std::vector<float>(count, 1));
    const std::vector<Box> all = boxes(rank, count);
    if (rank == 0) one.waitFor(gate);
    EXPECT_HORING(
        horingAllReduce(data.data(), data.data(), count, horingFloat, horingSum, comm(rank), one.get()));
    exchange(rank, all, count, [&](int) { return other.get(); });
    one.synchronize();
    other.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(count, static_cast<float>(ranks())));
    expectReceived(rank, all, count);
  });
  opens.join();
}

// More than a kernel has room for.
TEST_P(GpuMessages, MayBeHundredsInAGroup) {
  begin();
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = 300, messages = 150;
    const GpuStream stream(cuda_, rank);
    const int next = (rank + 1) % ranks(), before = (rank + ranks() - 1) % ranks();
    const Floats sent(cuda_, rank, message(rank, next, count * messages)),
        received(cuda_, rank, std::vector<float>(count * messages));
    EXPECT_HORING(horingGroupStart());
    for (size_t i = 0; i < messages; ++i) {
      EXPECT_HORING(horingSend(sent.data() + i * count, count, horingFloat, next, comm(rank), stream.get()));
      EXPECT_HORING(
          horingRecv(received.data() + i * count, count, horingFloat, before, comm(rank), stream.get()));
    }
    EXPECT_HORING(horingGroupEnd());
    stream.synchronize();
    EXPECT_EQ(received.read(), message(before, rank, count * messages));
  });
}

TEST_P(GpuMessages, ToOneselfNeedTheirCounterpart) {
  begin();
  const GpuStream stream(cuda_, 0);
  const Floats data(cuda_, 0, {1, 2, 3});
  for (void* const on : {stream.get(), static_cast<void*>(nullptr)})
    EXPECT_TRUE(refuses(horingSend(data.data(), 3, horingFloat, 0, comm(0), on), horingInvalidUsage,
                        "sends itself 1 messages and receives 0"));
  // It was not begun.
  onEveryRank(ranks(), [&](int rank) {
    const std::vector<Box> all = boxes(rank, 10);
    exchange(rank, all, 10, [](int) { return nullptr; });
    expectReceived(rank, all, 10);
  });
}

constexpr World kRanks[] = {{4, nullptr}, {3, "socket"}, {4, "shm,socket"}, {2, nullptr}, {3, nullptr}};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuMessages, testing::ValuesIn(firstUnderSanitizer(3, kRanks)), nameOf);

TEST_P(GpuMessagesInGraphs, AreReplayed) {
  begin();
  std::barrier all_here(ranks());  // no thread may allocate or query while another thread records
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = std::max<size_t>(kCounts[std::size(kCounts) - 1], 20'000);
    const GpuStream stream(cuda_, rank);
    const std::vector<Box> all = boxes(rank, count);
    const CurrentGpu current(cuda_, rank);
    all_here.arrive_and_wait();
    const RecordedGraph graph(cuda_, stream,
                              [&] { exchange(rank, all, count, [&](int) { return stream.get(); }); });
    all_here.arrive_and_wait();
    graph.instantiate();
    all_here.arrive_and_wait();
    EXPECT_EQ(all.front().received->read(), std::vector<float>(count, -1));
    for (int replay = 0; replay < 3; ++replay) {
      for (const Box& box : all) box.received->write(std::vector<float>(count, -2));
      graph.launch();
      stream.synchronize();
      expectReceived(rank, all, count);
    }
  });
}

// In the order of their calls with others, and recorded.
TEST_P(GpuMessagesInGraphs, OfAllToAllAreReplayedBetweenOtherCollectives) {
  begin();
  std::barrier all_here(ranks());
  onEveryRank(ranks(), [&](int rank) {
    const auto n = static_cast<size_t>(ranks());
    const std::vector<size_t> counts(n, 500);
    const Floats data(cuda_, rank, std::vector<float>(500 * n, 1)),
        turned(cuda_, rank, std::vector<float>(500 * n, 0));
    const GpuStream stream(cuda_, rank);
    const CurrentGpu current(cuda_, rank);
    all_here.arrive_and_wait();
    const RecordedGraph graph(cuda_, stream, [&] {
      EXPECT_HORING(horingGroupStart());
      EXPECT_HORING(horingAllReduce(data.data(), data.data(), 500 * n, horingFloat, horingSum, comm(rank),
                                    stream.get()));
      EXPECT_HORING(horingAlltoAllV(data.data(), counts.data(), nullptr, turned.data(), counts.data(),
                                    nullptr, horingFloat, comm(rank), stream.get()));
      EXPECT_HORING(horingAllReduce(turned.data(), data.data(), 500 * n, horingFloat, horingMax, comm(rank),
                                    stream.get()));
      EXPECT_HORING(horingGroupEnd());
    });
    all_here.arrive_and_wait();
    graph.instantiate();
    all_here.arrive_and_wait();
    for (int replay = 0; replay < 3; ++replay) graph.launch();
    stream.synchronize();
    const auto ranks_as_float = static_cast<float>(n);
    EXPECT_EQ(data.read(), std::vector<float>(500 * n, ranks_as_float * ranks_as_float * ranks_as_float));
  });
}

// What streams do at once, and what graphs replay.
TEST_P(GpuMessagesInGraphs, MayComeBetweenOthers) {
  begin();
  cuda_.fail(nullptr, 0);
  std::barrier all_here(ranks());
  onEveryRank(ranks(), [&](int rank) {
    constexpr size_t count = 3000;
    const GpuStream stream(cuda_, rank);
    const std::vector<Box> recorded = boxes(rank, count), launched = boxes(rank, count + 1);
    const auto on_stream = [&](int) { return stream.get(); };
    const CurrentGpu current(cuda_, rank);
    all_here.arrive_and_wait();
    const RecordedGraph graph(cuda_, stream, [&] { exchange(rank, recorded, count, on_stream); });
    all_here.arrive_and_wait();
    graph.instantiate();
    all_here.arrive_and_wait();
    for (int round = 0; round < 2; ++round) {
      graph.launch();
      exchange(rank, launched, count + 1, on_stream);
    }
    stream.synchronize();
    expectReceived(rank, recorded, count);
    expectReceived(rank, launched, count + 1);
  });
}

constexpr World kWorlds[] = {{4, nullptr}, {4, "socket"}, {2, nullptr}, {2, "shm,socket"}};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuMessagesInGraphs, testing::ValuesIn(firstUnderSanitizer(2, kWorlds)),
                         nameOf);

// A single rank needs no agreement.
TEST(GpuMessagesOfOne, ArePartOfGraphs) {
  const FakeCuda cuda;
  if (cuda.gpus() < 1) GTEST_SKIP() << "no GPU here";
  cuda.setKernels(&horing::test::emulatedKernels());
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  {
    const Floats from(cuda, 0, {1, 2, 3}), to(cuda, 0, {0, 0, 0});
    const GpuStream stream(cuda, 0);
    const CurrentGpu current(cuda, 0);
    const RecordedGraph graph(cuda, stream, [&] {
      EXPECT_HORING(horingGroupStart());
      EXPECT_HORING(horingSend(from.data(), 3, horingFloat, 0, comms[0], stream.get()));
      EXPECT_HORING(horingRecv(to.data(), 3, horingFloat, 0, comms[0], stream.get()));
      EXPECT_HORING(horingGroupEnd());
    });
    graph.launch();
    stream.synchronize();
    EXPECT_EQ(to.read(), std::vector<float>({1, 2, 3}));
  }
  EXPECT_HORING(horingCommDestroy(comms[0]));
  cuda.setKernels(nullptr);
}

// Of two, made for the fake driver.
class GpuMessageTrouble : public GpuKernelTrouble {
 protected:
  // Rank 1 receives what rank 0 does not send.
  void receive(size_t count, void* stream) {
    EXPECT_HORING(horingRecv(on_1_.data(), count, horingFloat, 0, comm(1), stream));
  }
};

TEST_F(GpuMessageTrouble, OfOneThatNeverComesEndsAtTheDeadlineAndReachesAll) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const GpuStream stream(cuda_, 1);
  receive(8, stream.get());
  stream.synchronize();
  EXPECT_TRUE(refuses(add(1, on_1_.data(), stream.get()), horingTimeout,
                      "on the GPU of rank 1: a message of 32 bytes from rank 0 did not get on"));
  EXPECT_EQ(heardError(0), horingRemoteError);
}

TEST_F(GpuMessageTrouble, OfOneThatNeverComesEndsAtTheDeadlineOfTheCall) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  begin();
  const GpuStream stream(cuda_, 1);
  ASSERT_HORING(horingCommSetTimeout(comm(1), 300));
  receive(8, stream.get());
  ASSERT_HORING(horingCommSetTimeout(comm(1), 30'000));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(1, on_1_.data(), stream.get()), horingTimeout,
                      "a message of 32 bytes from rank 0 did not get on for 300 ms"));
}

TEST_F(GpuMessageTrouble, OfSizesThatDifferIsNamed) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  EXPECT_HORING(horingSend(on_0_.data(), 6, horingFloat, 1, comm(0), stream.get()));
  receive(8, other.get());
  stream.synchronize();
  other.synchronize();
  EXPECT_TRUE(refuses(add(1, on_1_.data(), other.get()), horingInvalidUsage,
                      "a message of 32 bytes from rank 0 was expected, and one of 24 bytes arrived"));
  EXPECT_NE(heardError(0), horingSuccess);
}

TEST_F(GpuMessageTrouble, AbortEndsThem) {
  begin();
  const GpuStream stream(cuda_, 1);
  receive(8, stream.get());
  EXPECT_HORING(horingCommAbort(std::exchange(comms_[0], nullptr)));
  stream.synchronize();
  EXPECT_NE(add(1, on_1_.data(), stream.get()), horingSuccess);
}

// They would have to be launched together, and are calls of one rank: hosts carry them.
TEST_F(GpuMessageTrouble, OfRanksThatShareAGpuIsNone) {
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 3));
  onEveryRank(2, [&](int rank) {
    float* const data = rank == 0 ? on_0_.data() : there.data();
    EXPECT_HORING(add(rank, data, nullptr));
    const GpuStream stream(cuda_, 0);
    EXPECT_HORING(rank == 0 ? horingRecv(data, 8, horingFloat, 1, comm(0), stream.get())
                            : horingSend(data, 8, horingFloat, 0, comm(1), stream.get()));
    stream.synchronize();
  });
  EXPECT_EQ(on_0_.read(), std::vector<float>(8, 4));
}

TEST_F(GpuMessageTrouble, OnStreamsOfWhichOneRecordsIsRefused) {
  begin();
  const GpuStream one(cuda_, 0), other(cuda_, 0);
  const CurrentGpu current(cuda_, 0);
  const RecordedGraph graph(cuda_, one, [&] {
    EXPECT_HORING(horingGroupStart());
    for (const GpuStream* const stream : {&one, &other})
      EXPECT_HORING(horingSend(on_0_.data(), 8, horingFloat, 1, comm(0), stream->get()));
    EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "either all record the same one or none"));
  });
  EXPECT_EQ(asyncError(0), horingSuccess);
}

TEST_F(GpuMessageTrouble, OnStreamsThatRecordDifferentGraphsIsRefused) {
  begin();
  const GpuStream one(cuda_, 0), other(cuda_, 0);
  const CurrentGpu current(cuda_, 0);
  const RecordedGraph outer(cuda_, one, [&] {
    const RecordedGraph inner(cuda_, other, [&] {
      EXPECT_HORING(horingGroupStart());
      for (const GpuStream* const stream : {&one, &other})
        EXPECT_HORING(horingSend(on_0_.data(), 8, horingFloat, 1, comm(0), stream->get()));
      EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "record different graphs"));
    });
  });
  EXPECT_EQ(asyncError(0), horingSuccess);
}

// Queues to all find no memory: hosts carry messages, and kernels the rest.
TEST_F(GpuMessageTrouble, WithTheirQueuesIsNone) {
  const Setting debug("HORING_DEBUG", "info");
  begin();
  testing::internal::CaptureStderr();
  cuda_.fail("cuMemcpyAsync", 2, 3, 1);
  for (int round = 0; round < 2; ++round)
    onEveryRank(2, [&](int rank) {
      const GpuStream stream(cuda_, rank);
      EXPECT_HORING(rank == 0 ? horingSend(on_0_.data(), 8, horingFloat, 1, comm(0), stream.get())
                              : horingRecv(on_1_.data(), 8, horingFloat, 0, comm(1), stream.get()));
      stream.synchronize();
      EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
      stream.synchronize();
    });
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("sends and receives go through memory of the host"), std::string::npos) << log;
  EXPECT_EQ(on_1_.read(), std::vector<float>(8, 8));
}

}  // namespace
