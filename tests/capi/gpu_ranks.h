#pragma once
// Ranks with a GPU of the fake driver each, whose kernels are the engine's, run on threads of the host.
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../sanitizer.h"
#include "emulated_kernels.h"
#include "fake_cuda/fake_gpu.h"
#include "ways.h"

// For tests that let it pass: long enough for all first operations on a machine that is busy with other tests, too. Under a
// sanitizer they take 1.5 s on free cores.
inline constexpr const char* kShortTimeoutMs = horing::test::kSanitizer ? "10000" : "3000";

// Threads of this process that know nothing of each other.
inline std::vector<horingComm_t> makeNodes(int ranks, const char* transports) {
  const Setting over("HORING_TRANSPORTS", transports);
  std::vector<horingComm_t> comms = makeOneByOne(
      ranks, [](int rank) { ::setenv("HORING_HOSTID", ("node " + std::to_string(rank)).c_str(), 1); });
  ::unsetenv("HORING_HOSTID");
  return comms;
}

// Threads of this process that met by an ID, each with its GPU.
inline std::vector<horingComm_t> makeThreads(const horing::test::FakeCuda& cuda, int ranks) {
  std::vector<horingComm_t> comms(static_cast<size_t>(ranks), nullptr);
  horingUniqueId id;
  EXPECT_HORING(horingGetUniqueId(&id));
  EXPECT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    const horing::test::CurrentGpu current(cuda, rank);
    EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank));
  }
  EXPECT_HORING(horingGroupEnd());
  return comms;
}

// The work that a call has recorded from a stream, to be replayed there. Its GPU must be current. While it records no thread may
// allocate, query, or launch a graph for the first time; with `kThreadLocal` only this thread may not.
class RecordedGraph {
 public:
  enum Mode : int { kGlobal = 0, kThreadLocal = 1 };
  template <typename Call>
  RecordedGraph(const horing::test::FakeCuda& cuda, const horing::test::GpuStream& stream, const Call& call,
                Mode mode = kGlobal)
      : cuda_(cuda), stream_(stream) {
    EXPECT_EQ(cuda_.call<int(void*, int)>("cuStreamBeginCapture_v2")(stream_.get(), mode), 0);
    call();
    EXPECT_EQ(cuda_.call<int(void*, void**)>("cuStreamEndCapture")(stream_.get(), &graph_), 0);
  }
  ~RecordedGraph() {
    if (executable_) {
      EXPECT_EQ(cuda_.call<int(void*)>("cuGraphExecDestroy")(executable_), 0);
    }
    EXPECT_EQ(cuda_.call<int(void*)>("cuGraphDestroy")(graph_), 0);
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  // Makes it ready; a driver may do so only while no running kernels wait for this thread.
  void instantiate() const {
    if (executable_) return;
    const auto current = stream_.use();
    const auto make = cuda_.call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
    EXPECT_EQ(make(&executable_, graph_, 0), 0);
  }
  void launch() const {
    instantiate();
    const auto current = stream_.use();
    EXPECT_EQ(cuda_.call<int(void*, void*)>("cuGraphLaunch")(executable_, stream_.get()), 0);
  }

 private:
  const horing::test::FakeCuda& cuda_;
  const horing::test::GpuStream& stream_;
  void* graph_ = nullptr;
  mutable void* executable_ = nullptr;
};

// Two ranks: each records two sums of ones into a graph, which runs nothing, and replays it three times.
inline void replaySums(const horing::test::FakeCuda& cuda, const std::vector<horingComm_t>& comms) {
  std::barrier all_here(2);  // no thread may allocate or query while another thread records
  onEveryRank(2, [&](int rank) {
    const std::vector<int64_t> ones(3000, 1);
    const horing::test::GpuVector<int64_t> data(cuda, rank, ones);
    const horing::test::GpuStream stream(cuda, rank);
    const horing::test::CurrentGpu current(cuda, rank);
    all_here.arrive_and_wait();
    const RecordedGraph graph(cuda, stream, [&] {
      for (int i = 0; i < 2; ++i)
        EXPECT_HORING(horingAllReduce(data.data(), data.data(), ones.size(), horingInt64, horingSum,
                                      comms[static_cast<size_t>(rank)], stream.get()));
    });
    all_here.arrive_and_wait();
    graph.instantiate();
    all_here.arrive_and_wait();
    EXPECT_EQ(data.read(), ones);
    for (int replay = 0; replay < 3; ++replay) graph.launch();
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<int64_t>(3000, 64));
  });
}

// Ranks of every way with the driver, and its kernels where the way has some.
class GpuCollectives : public Collectives {
 protected:
  void SetUp() override {
    cuda_.setKernels(GetParam().has_kernels ? &horing::test::emulatedKernels() : nullptr);
    Collectives::SetUp();
    ASSERT_TRUE(cuda_.loaded());
  }
  void TearDown() override {
    Collectives::TearDown();
    cuda_.setKernels(nullptr);
  }
  const horing::test::FakeCuda cuda_;
};

// Two of them, for failures.
class GpuKernelTrouble : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(horing::test::FakeCuda::isReal()) << "made for the fake driver";
    cuda_.setKernels(&horing::test::emulatedKernels());
  }
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    std::erase(comms_, nullptr);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    cuda_.setKernels(nullptr);
  }
  virtual void meet() { comms_ = makeCommunicators(2, Meeting::kInitAll); }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  horingResult_t add(int rank, float* data, void* stream) {
    return horingAllReduce(data, data, 8, horingFloat, horingSum, comm(rank), stream);
  }
  // The first operation of both, each on its own GPU, so that later ones do not wait on the host.
  void begin() {
    meet();
    onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
  }
  // One rank fails to make its part of a plan when most of it exists: hosts run that operation, and kernels run later ones, which
  // find room for as much again.
  void expectKernelsAfterAPlanThatIsRefused() {
    const Setting window("HORING_TESTS_WINDOW", "14"), slots("HORING_TESTS_SLOTS", "16"),
        algorithm("HORING_ALGO", "ring");
    meet();
    cuda_.fail("cuMemcpyAsync", 2, 28, 1);
    onEveryRank(2, [&](int rank) {
      EXPECT_HORING(add(rank, on(rank).data(), nullptr));
      EXPECT_EQ(on(rank).read(), std::vector<float>(8, 2));
    });
    // What goes through hosts fails from here on.
    cuda_.fail("cuStreamWaitValue32", 999);
    onEveryRank(2, [&](int rank) {
      const horing::test::GpuVector<float> gathered(cuda_, rank, std::vector<float>(16, 0));
      const horing::test::GpuStream stream(cuda_, rank);
      for (int round = 0; round < 3; ++round) {
        EXPECT_HORING(
            horingAllGather(on(rank).data(), gathered.data(), 8, horingFloat, comm(rank), stream.get()));
        EXPECT_HORING(horingReduceScatter(gathered.data(), on(rank).data(), 8, horingFloat, horingSum,
                                          comm(rank), stream.get()));
      }
      stream.synchronize();
      EXPECT_EQ(gathered.read(), std::vector<float>(16, 8));
      EXPECT_EQ(on(rank).read(), std::vector<float>(8, 16));
    });
  }
  const horing::test::GpuVector<float>& on(int rank) const { return rank == 0 ? on_0_ : on_1_; }
  // Rank 0 adds, and rank 1 takes the maximum.
  void callDifferently(const horing::test::GpuStream& stream, const horing::test::GpuStream& other) {
    EXPECT_HORING(add(0, on_0_.data(), stream.get()));
    EXPECT_HORING(
        horingAllReduce(on_1_.data(), on_1_.data(), 8, horingFloat, horingMax, comm(1), other.get()));
    stream.synchronize();
    other.synchronize();
  }
  // One thread: each rank makes a call and exchanges messages in a group, on one stream. Hosts carry the messages.
  template <typename Call>
  void expectMessagesBehind(const std::vector<int>& gpus, const Call& call) {
    using Vector = horing::test::GpuVector<float>;
    std::vector<std::unique_ptr<horing::test::GpuStream>> streams;
    std::vector<std::unique_ptr<Vector>> sent, received;
    EXPECT_HORING(horingGroupStart());
    for (int rank = 0; rank < 2; ++rank) {
      const int gpu = gpus[static_cast<size_t>(rank)];
      streams.push_back(std::make_unique<horing::test::GpuStream>(cuda_, gpu));
      sent.push_back(std::make_unique<Vector>(cuda_, gpu, std::vector<float>(8, static_cast<float>(rank))));
      received.push_back(std::make_unique<Vector>(cuda_, gpu, std::vector<float>(8, -1)));
      void* const stream = streams.back()->get();
      call(rank, stream);
      EXPECT_HORING(horingSend(sent.back()->data(), 8, horingFloat, 1 - rank, comm(rank), stream));
      EXPECT_HORING(horingRecv(received.back()->data(), 8, horingFloat, 1 - rank, comm(rank), stream));
    }
    EXPECT_HORING(horingGroupEnd());
    for (const auto& stream : streams) stream->synchronize();
    EXPECT_EQ(received[0]->read(), std::vector<float>(8, 1));
    EXPECT_EQ(received[1]->read(), std::vector<float>(8, 0));
  }
  // Rank 0 calls, and rank 1 does not.
  void expectNamedWhoNeverComes() {
    const horing::test::GpuStream stream(cuda_, 0);
    EXPECT_HORING(add(0, on_0_.data(), stream.get()));
    stream.synchronize();
    EXPECT_EQ(asyncError(0), horingTimeout);
    EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingTimeout,
                        "rank 1 never called all_reduce launch #1"));
  }
  // Both record a sum and replay it, and then rank 0 does so alone, three times without a look at the first.
  void expectNamedWhoNeverReplays() {
    const horing::test::GpuStream stream(cuda_, 0), other(cuda_, 1);
    const auto graphOf = [&](int rank) {
      const horing::test::CurrentGpu current(cuda_, rank);
      const horing::test::GpuStream& on_stream = rank == 0 ? stream : other;
      return std::make_unique<RecordedGraph>(
          cuda_, on_stream, [&] { EXPECT_HORING(add(rank, on(rank).data(), on_stream.get())); });
    };
    const auto replayed = graphOf(0), forgotten = graphOf(1);
    forgotten->launch();
    for (int replay = 0; replay < 4; ++replay) replayed->launch();
    stream.synchronize();
    other.synchronize();
    EXPECT_EQ(asyncError(0), horingTimeout);
    const std::string why =
        std::string("rank 1 never called all_reduce run #1 in a graph; rank 0 has waited for ") +
        kShortTimeoutMs + " ms";
    EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingTimeout, why.c_str()));
  }
  horingResult_t asyncError(int rank) {
    horingResult_t error = horingSuccess;
    EXPECT_HORING(horingCommGetAsyncError(comm(rank), &error));
    return error;
  }
  // What another rank ran into, which comes a moment later than it is known there.
  horingResult_t heardError(int rank) {
    horingResult_t heard = horingSuccess;
    for (int look = 0; heard == horingSuccess && look < 10'000; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      heard = asyncError(rank);
    }
    return heard;
  }
  const horing::test::FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
  const horing::test::GpuVector<float> on_0_{cuda_, 0, std::vector<float>(8, 1)},
      on_1_{cuda_, 1, std::vector<float>(8, 1)};
};
