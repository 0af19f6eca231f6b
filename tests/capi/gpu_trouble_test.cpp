// Failures of operations on GPUs by kernels: the driver is the fake one, and kernels are the engine's, run on threads of the host.
#include <atomic>
#include <functional>
#include <future>
#include <utility>

#include "gpu_ranks.h"
#include "written_folder.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::ForeignMemory;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

TEST_F(GpuKernelTrouble, AbortEndsTheKernelsOfAllRanks) {
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingRemoteError, "rank"));
  // The stream is usable again.
  const PinnedVector<float> threes(cuda_, 0, std::vector<float>(8, 3));
  on_0_.writeOn(stream, threes);
  stream.synchronize();
  EXPECT_EQ(on_0_.read(), threes.values());
}

// Its caller may free the buffers, to which the kernel would still write.
TEST_F(GpuKernelTrouble, EndsACallOnlyAfterItsKernels) {
  begin();
  std::atomic<bool> gate{false};
  const CurrentGpu current(cuda_, 0);
  GpuStream::ofDefault(cuda_).waitFor(gate);
  std::thread ends([&] {
    EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gate = true;
  });
  EXPECT_TRUE(refuses(add(0, on_0_.data(), nullptr), horingRemoteError, "rank 1"));
  EXPECT_TRUE(gate);
  EXPECT_EQ(cuda_.running(0), 0);
  ends.join();
}

// The first of two launches waits on its stream, and the second for the other rank, which shares the GPU.
TEST_F(GpuKernelTrouble, EndsACallInAGroupOnlyAfterItsKernels) {
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1)), also(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2,
              [&](int rank) { EXPECT_HORING(add(rank, rank == 0 ? on_0_.data() : there.data(), nullptr)); });
  std::atomic<bool> gate{false};
  const CurrentGpu current(cuda_, 0);
  const GpuStream stream(cuda_, 0);
  GpuStream::ofDefault(cuda_).waitFor(gate);
  std::thread ends([&] {
    EXPECT_HORING(add(1, there.data(), stream.get()));
    EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gate = true;
  });
  void* const buffers[] = {on_0_.data(), also.data()};
  const size_t counts[] = {8, 8};
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduceList(buffers, buffers, counts, 2, horingFloat, horingSum, comm(0), nullptr));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingRemoteError, "rank 1"));
  EXPECT_TRUE(gate);
  EXPECT_EQ(cuda_.running(0), 0);
  ends.join();
}

// The program of the rank whose GPU failed may never ask, and the other ranks' kernels would wait for its kernel.
TEST_F(GpuKernelTrouble, OfOneGpuIsToldToTheOthersWithoutACall) {
  begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // no thread watches those kernels any more
  const GpuStream stream(cuda_, 0);
  cuda_.fail("cuEventQuery", 700, 0, 1);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  horingResult_t error = horingSuccess;
  while (error == horingSuccess) error = asyncError(1);
  EXPECT_EQ(error, horingRemoteError);
  EXPECT_NE(std::string(horingGetLastError(comm(1))).find("kernels on GPU 0"), std::string::npos)
      << horingGetLastError(comm(1));
  // Its kernel, which waited for rank 1, has ended.
  stream.synchronize();
  EXPECT_EQ(asyncError(0), horingUnhandledCudaError) << horingGetLastError(comm(0));
}

// Behind it is what the thread of the callback carries out, and kernels are launched in the order of the calls.
TEST_F(GpuKernelTrouble, OfACallbackThatWouldWaitForItselfIsRefused) {
  begin();
  const GpuStream stream(cuda_, 0);
  std::promise<void> queued;
  std::promise<testing::AssertionResult> refused;
  std::function<void()> issues = [&, is_queued = queued.get_future().share()] {
    is_queued.wait();
    refused.set_value(refuses(add(0, on(0).data(), stream.get()), horingInvalidUsage, "in a callback"));
  };
  std::vector<horingStream_t> own(2);
  for (horingStream_t& each : own) ASSERT_HORING(horingStreamCreate(&each));
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_HORING(add(rank, on(rank).data(), own[static_cast<size_t>(rank)]));
  const auto call = [](horingStream_t, horingResult_t, void* function) {
    (*static_cast<std::function<void()>*>(function))();
  };
  ASSERT_HORING(horingStreamAddCallback(own[0], call, &issues));
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_HORING(add(rank, on(rank).data(), own[static_cast<size_t>(rank)]));
  queued.set_value();
  EXPECT_TRUE(refused.get_future().get());
  for (const horingStream_t each : own) EXPECT_HORING(horingStreamDestroy(each));
  EXPECT_EQ(on(0).read(), std::vector<float>(8, 8));
}

TEST_F(GpuKernelTrouble, OfAPeerThatNeverComesEndsAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  expectNamedWhoNeverComes();
}

// As it was when the operation was called, not when the communicator was made or when the kernel waits.
TEST_F(GpuKernelTrouble, OfAPeerEndsAtTheDeadlineOfTheCall) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  const auto call_with = [&](int timeout_ms, int later_ms) {
    ASSERT_HORING(horingCommSetTimeout(comm(0), timeout_ms));
    ASSERT_HORING(add(0, on_0_.data(), stream.get()));
    ASSERT_HORING(horingCommSetTimeout(comm(0), later_ms));
  };
  call_with(30'000, 300);
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  ASSERT_HORING(add(1, on_1_.data(), other.get()));
  stream.synchronize();
  other.synchronize();
  EXPECT_EQ(on_0_.read(), std::vector<float>(8, 4));
  call_with(300, 30'000);
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingTimeout,
                      "rank 1 never called all_reduce launch #2; rank 0 has waited for 300 ms"));
}

TEST_F(GpuKernelTrouble, OfCallsThatDifferIsNamed) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  callDifferently(stream, other);
  EXPECT_EQ(asyncError(0), horingInvalidUsage);
  EXPECT_TRUE(
      refuses(add(0, on_0_.data(), stream.get()), horingInvalidUsage,
              "ranks disagree about launch #1: rank 0 called all_reduce (8 x float32, sum), rank 1 called "
              "all_reduce (8 x float32, max)"));
}

// In the mode in which no thread may query a stream unless it declares that as not part of a graph.
TEST_F(GpuKernelTrouble, IsNamedAlsoWhileAThreadRecords) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1), recorded(cuda_, 2);
  const CurrentGpu current(cuda_, 2);
  const RecordedGraph nothing(cuda_, recorded, [&] {
    callDifferently(stream, other);
    horingResult_t error = horingSuccess;
    while (error == horingSuccess) error = asyncError(0);
    EXPECT_EQ(error, horingInvalidUsage) << horingGetLastError(comm(0));
  });
}

// The kernel ends: it may wait for another rank, and the other ranks must learn of the failure now.
TEST_F(GpuKernelTrouble, IsNamedAlsoWhileAnotherThreadIsInACall) {
  begin();
  float received = 0;
  horingResult_t ended = horingSuccess;
  std::thread inside([&] {
    // The probe below may be inside just then.
    do {
      ended = horingRecv(&received, 1, horingFloat, 1, comm(0), nullptr);
    } while (ended == horingInvalidUsage);
  });
  while (horingAllReduce(nullptr, nullptr, 0, horingFloat, horingSum, comm(0), nullptr) != horingInvalidUsage)
    std::this_thread::yield();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  // By which it is known how far they are.
  cuda_.fail("cuEventQuery", 700);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_HORING(add(1, on_1_.data(), other.get()));
  horingResult_t error = horingSuccess;
  while (error == horingSuccess) error = asyncError(0);
  // Either GPU is the first that is asked.
  EXPECT_TRUE(error == horingUnhandledCudaError || error == horingRemoteError) << error;
  EXPECT_NE(std::string(horingGetLastError(comm(0))).find("kernels on GPU"), std::string::npos)
      << horingGetLastError(comm(0));
  cuda_.fail(nullptr, 0);
  inside.join();
  // Both have failed by now, and all ranks end with the first error that the rendezvous received.
  EXPECT_TRUE(ended == horingUnhandledCudaError || ended == horingRemoteError) << ended;
  EXPECT_EQ(asyncError(0), ended);
  EXPECT_NE(heardError(1), horingSuccess);
  stream.synchronize();
  other.synchronize();
}

TEST_F(GpuKernelTrouble, OfRanksThatShareAGpuAndCallDifferentThingsIsNamed) {
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2, [&](int rank) {
    const GpuStream stream(cuda_, 0);
    float* const data = rank == 0 ? on_0_.data() : there.data();
    EXPECT_TRUE(refuses(horingAllReduce(data, data, 8, horingFloat, rank == 0 ? horingSum : horingMax,
                                        comm(rank), stream.get()),
                        horingInvalidUsage, "rank 1 called all_reduce (8 x float32, max)"));
    stream.synchronize();
  });
}

// A rank that waits for another one on the host learns when that is lost, and names it if it never calls.
TEST_F(GpuKernelTrouble, OfAPeerEndsTheWaitForItsFirstOperation) {
  meet();
  std::thread ends([&] { EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr))); });
  const GpuStream stream(cuda_, 0);
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingRemoteError, "rank 1"));
  ends.join();
}

// Where the list of horingCommInitAll names all GPUs, no call waits for another rank's first one: the ranks have met.
TEST_F(GpuKernelTrouble, OfAPeerThatNeverComesKeepsNoCallWhereAllGpusAreKnown) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");  // of a call that waits
  const int gpus[] = {0, 1};
  for (const bool is_message : {false, true}) {
    comms_.assign(2, nullptr);
    ASSERT_HORING(horingCommInitAll(comms_.data(), 2, gpus));
    const GpuStream stream(cuda_, 0);
    if (is_message) {
      EXPECT_HORING(horingSend(on_0_.data(), 8, horingFloat, 1, comm(0), stream.get()));
    } else {
      EXPECT_HORING(horingGroupStart());
      EXPECT_HORING(add(0, on_0_.data(), stream.get()));
      EXPECT_HORING(horingGroupEnd());
      EXPECT_HORING(add(0, on_0_.data(), stream.get()));
    }
    // Work on the stream waits until another thread ends it.
    std::thread([&] { EXPECT_HORING(horingCommAbort(std::exchange(comms_[0], nullptr))); }).join();
    stream.synchronize();
    EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
  }
}

TEST_F(GpuKernelTrouble, OfAPeerThatSharesTheGpuIsNamedAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2,
              [&](int rank) { EXPECT_HORING(add(rank, rank == 0 ? on_0_.data() : there.data(), nullptr)); });
  const GpuStream stream(cuda_, 0);
  EXPECT_TRUE(
      refuses(add(0, on_0_.data(), stream.get()), horingTimeout, "rank 1 never called all_reduce launch #1"));
  stream.synchronize();
}

// Their kernel is launched onto the streams when the last rank has called.
TEST_F(GpuKernelTrouble, IsNoneForMessagesInAGroupOfRanksThatShareAGpu) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1));
  expectMessagesBehind({0, 0}, [&](int rank, void* stream) {
    EXPECT_HORING(add(rank, rank == 0 ? on_0_.data() : there.data(), stream));
  });
  EXPECT_EQ(there.read(), std::vector<float>(8, 2));
}

TEST_F(GpuKernelTrouble, OfAnotherGpuIsRefused) {
  begin();
  const GpuVector<float> elsewhere(cuda_, 2, std::vector<float>(8));
  const GpuStream stream(cuda_, 0), stream_elsewhere(cuda_, 2);
  std::vector<float> host(8);
  EXPECT_TRUE(
      refuses(add(0, elsewhere.data(), stream_elsewhere.get()), horingInvalidUsage, "works on GPU 0"));
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream_elsewhere.get()), horingInvalidUsage, "is one of GPU 2"));
  EXPECT_TRUE(refuses(add(0, host.data(), stream.get()), horingInvalidUsage,
                      "a stream of CUDA is for buffers on a GPU"));
  // None of these sticks.
  onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
}

// Both wait for messages of the other, and neither is sent.
TEST_F(GpuKernelTrouble, OfCallsThatWaitForEachOtherIsNamed) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  EXPECT_HORING(
      horingReduce(on_0_.data(), on_0_.data(), 8, horingFloat, horingSum, 0, comm(0), stream.get()));
  EXPECT_HORING(horingReduce(on_1_.data(), on_1_.data(), 8, horingFloat, horingSum, 1, comm(1), other.get()));
  stream.synchronize();
  other.synchronize();
  EXPECT_NE(asyncError(0), horingSuccess);
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingInvalidUsage,
                      "rank 0 called reduce (8 x float32, sum, root 0), rank 1 called reduce (8 x float32, "
                      "sum, root 1)"));
}

// And each rank leaves how often it has run which plan.
TEST_F(GpuKernelTrouble, OfAReplayThatOneRankNeverMakesIsNamed) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  const WrittenFolder records("HORING_FLIGHT_DIR");
  begin();
  expectNamedWhoNeverReplays();
  while (records.files() < 2) std::this_thread::yield();
  for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  size_t of_one = 0;
  for (const std::string& text : records.texts()) {
    EXPECT_NE(text.find("\"replays\":[\n{\"first\":"), std::string::npos) << text;
    of_one += text.find("\"call\":\"all_reduce\",\"begun\":1,\"ended\":1}") != std::string::npos;
  }
  EXPECT_EQ(of_one, 1u);
}

TEST_F(GpuKernelTrouble, IsWrittenDown) {
  const WrittenFolder records("HORING_FLIGHT_DIR");
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  callDifferently(stream, other);
  EXPECT_NE(asyncError(0), horingSuccess);
  // By a thread of the control plane.
  while (records.files() < 2) std::this_thread::yield();
  for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  for (const std::string& text : records.texts()) {
    EXPECT_NE(text.find("\"launches\":{\"begun\":2,"), std::string::npos) << text;
    EXPECT_NE(text.find("\"call\":\"all_reduce\",\"arguments\":\"8 x float32, "), std::string::npos) << text;
  }
}

TEST_F(GpuKernelTrouble, IsLookedForInATimeline) {
  const WrittenFolder timelines("HORING_TRACE");
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  onEveryRank(2, [&](int rank) {
    const GpuStream& own = rank == 0 ? stream : other;
    EXPECT_HORING(add(rank, on(rank).data(), own.get()));
    own.synchronize();
  });
  const GpuVector<float> at_0(cuda_, 0, std::vector<float>(8)), at_1(cuda_, 1, std::vector<float>(8));
  onEveryRank(2, [&](int rank) {
    const GpuStream& own = rank == 0 ? stream : other;
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(horingSend(on(rank).data(), 8, horingFloat, 1 - rank, comm(rank), own.get()));
    EXPECT_HORING(
        horingRecv((rank == 0 ? at_0 : at_1).data(), 8, horingFloat, 1 - rank, comm(rank), own.get()));
    EXPECT_HORING(horingGroupEnd());
    own.synchronize();
  });
  for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  const std::vector<std::string> texts = timelines.texts();
  EXPECT_EQ(texts.size(), 2u);
  for (const std::string& text : texts)
    for (const char* const shown :
         {"\"tid\":65535,\"args\":{\"name\":\"kernels\"}", "all_reduce launch #0", "all_reduce launch #1",
          "\"name\":\"to rank ", "(kernel)\"}", "\"name\":\"send 32 bytes\"", "\"name\":\"recv 32 bytes\"",
          "\"bytes\":32,\"type\":\"float32\",\"launch\":0,\"state\":\"complete\""})
      EXPECT_NE(text.find(shown), std::string::npos) << text;
}

TEST_F(GpuKernelTrouble, OfMemoryForTheHostIsAnErrorThatLeaksNothing) {
  const int live = cuda_.live();
  meet();
  cuda_.fail("cuMemHostAlloc", 2);
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(
        refuses(add(rank, on(rank).data(), nullptr), horingUnhandledCudaError, "CUDA_ERROR_OUT_OF_MEMORY"));
  });
  cuda_.fail(nullptr, 0);
  // It does not stick.
  onEveryRank(2, [&](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)); });
  EXPECT_EQ(on_0_.read(), std::vector<float>(8, 2));
  for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(GpuKernelTrouble, OfOneThreadWithSeveralGpusIsNamedWhereLaunchesBlock) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const Setting blocking("CUDA_LAUNCH_BLOCKING", "1");
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_HORING(add(1, on_1_.data(), other.get()));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "CUDA_LAUNCH_BLOCKING is set"));
  // No error is sticky, and the ranks' own threads may continue.
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(add(rank, on(rank).data(), (rank == 0 ? stream : other).get()));
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 4));
  });
}

// Kernels of the library, in the primary one, reach none of its memory.
TEST_F(GpuKernelTrouble, OfBuffersAndStreamsOfAnotherContextIsRefused) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  const ForeignMemory there(cuda_, 0, 4096);
  const CurrentGpu current(cuda_, cuda_.context(0, false));
  void* stream = nullptr;
  ASSERT_EQ(cuda_.call<int(void**, unsigned int)>("cuStreamCreate")(&stream, 1), 0);
  EXPECT_TRUE(refuses(add(0, there.data(), nullptr), horingInvalidUsage,
                      "belongs to another context of GPU 0 than its primary one"));
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream), horingInvalidUsage,
                      "belongs to another context of GPU 0 than its primary one"));
  EXPECT_EQ(cuda_.call<int(void*)>("cuStreamDestroy_v2")(stream), 0);
}

// A green context has some of the processors of the primary one, and its memory.
TEST_F(GpuKernelTrouble, OfStreamsOfGreenContextsIsNone) {
  begin();
  onEveryRank(2, [&](int rank) {
    const CurrentGpu current(cuda_, cuda_.context(rank, true));
    void* stream = nullptr;
    ASSERT_EQ(cuda_.call<int(void**, unsigned int)>("cuStreamCreate")(&stream, 1), 0);
    EXPECT_HORING(add(rank, on(rank).data(), stream));
    EXPECT_EQ(cuda_.call<int(void*)>("cuStreamSynchronize")(stream), 0);
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 4));
    EXPECT_EQ(cuda_.call<int(void*)>("cuStreamDestroy_v2")(stream), 0);
  });
}

// In the mode in which no thread may allocate or free, unless it declares that as not part of a graph.
TEST_F(GpuKernelTrouble, WithWhatIsGivenBackIsNoneWhileAThreadRecords) {
  const GpuStream stream(cuda_, 0);
  const int live = cuda_.live();
  begin();
  const RecordedGraph nothing(cuda_, stream, [&] {
    for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
    EXPECT_EQ(cuda_.live(), live);
  });
}

// Kernels have no plan for the large entry: hosts take it.
TEST_F(GpuKernelTrouble, WithOneEntryOfAListIsNoneForTheOthers) {
  const horing::test::TemporaryFolder folder;
  const std::string table = folder.path() / "selection";
  std::ofstream(table) << "* * * * 4K one_shot\n* * * * * ring\n";
  const Setting selection("HORING_SELECTION", table);
  begin();
  const int launches = cuda_.launches();
  cuda_.fail("cuMemcpyAsync", 2, 10, 1);
  onEveryRank(2, [&](int rank) {
    const size_t large = 2'000'000;
    const GpuVector<float> small(cuda_, rank, std::vector<float>(8, 1)),
        big(cuda_, rank, std::vector<float>(large, 2));
    const GpuStream stream(cuda_, rank);
    const void* const sends[] = {small.data(), big.data()};
    void* const receives[] = {small.data(), big.data()};
    const size_t counts[] = {8, large};
    EXPECT_HORING(
        horingAllReduceList(sends, receives, counts, 2, horingFloat, horingSum, comm(rank), stream.get()));
    stream.synchronize();
    EXPECT_EQ(small.read(), std::vector<float>(8, 2));
    EXPECT_EQ(big.read(), std::vector<float>(large, 4));
    EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
    stream.synchronize();
  });
  EXPECT_EQ(cuda_.launches() - launches, 4);
  EXPECT_EQ(asyncError(0), horingSuccess);
}

// Of two broadcasts that it is made of, the second finds no room: hosts do all of it.
TEST_F(GpuKernelTrouble, WithAPartOfACollectiveIsNoneForAllOfIt) {
  begin();
  const int launches = cuda_.launches();
  cuda_.fail("cuMemcpyAsync", 2, 26, 1);
  onEveryRank(2, [&](int rank) {
    const GpuVector<float> all(cuda_, rank, std::vector<float>(12, -1));
    const GpuStream stream(cuda_, rank);
    const size_t counts[] = {8, 4};
    EXPECT_HORING(horingAllGatherV(on(rank).data(), counts[rank], all.data(), counts, nullptr, horingFloat,
                                   comm(rank), stream.get()));
    stream.synchronize();
    EXPECT_EQ(all.read(), std::vector<float>(12, 2));
    EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
    stream.synchronize();
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 4));
  });
  EXPECT_EQ(cuda_.launches() - launches, 2);
}

// Three images for each of two GPUs.
TEST_F(GpuKernelTrouble, IsNoneWithKernelsThatAnotherCommunicatorHasLoaded) {
  const auto takes = [&](const std::vector<horingComm_t>& comms) {
    const int before = cuda_.live();
    onEveryRank(2, [&](int rank) {
      EXPECT_HORING(horingAllReduce(on(rank).data(), on(rank).data(), 8, horingFloat, horingSum,
                                    comms[static_cast<size_t>(rank)], nullptr));
    });
    return cuda_.live() - before;
  };
  meet();
  const std::vector<horingComm_t> others = makeCommunicators(2, Meeting::kInitAll);
  const int first = takes(comms_);
  EXPECT_EQ(takes(others), first - 6);
  for (const horingComm_t other : others) EXPECT_HORING(horingCommDestroy(other));
}

// An allocation may wait for running kernels, which may wait for a later launch of this thread, or of one that it blocks.
TEST_F(GpuKernelTrouble, IsNoneWhereNothingCanBeAllocatedAfterTheFirst) {
  begin();
  cuda_.fail("cuMemHostAlloc", 2);
  onEveryRank(2, [&](int rank) {
    const GpuVector<float> gathered(cuda_, rank, std::vector<float>(16, 0));
    const GpuStream stream(cuda_, rank);
    EXPECT_HORING(
        horingAllGather(on(rank).data(), gathered.data(), 8, horingFloat, comm(rank), stream.get()));
    EXPECT_HORING(horingReduceScatter(gathered.data(), on(rank).data(), 8, horingFloat, horingSum, comm(rank),
                                      stream.get()));
    stream.synchronize();
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 4));
  });
}

TEST_F(GpuKernelTrouble, WithAPlanIsNoneForLaterKernels) {
  expectKernelsAfterAPlanThatIsRefused();
}

// Whatever keeps kernels from it, the host does it: with the same result, and nothing is left behind.
TEST_F(GpuKernelTrouble, WithKernelsIsNoneForTheHost) {
  struct Trouble {
    const char* function;
    int error;
    int successes = 0;
  };
  // Two events belong to the path through the host.
  constexpr Trouble kTroubles[] = {{"cuModuleLoadData", 218},
                                   {"cuDeviceCanAccessPeer", 1},
                                   {"cuCtxEnablePeerAccess", 2},
                                   {"cuMemAlloc", 2},
                                   {"cuMemAlloc", 2, 1},
                                   {"cuStreamCreate", 2},
                                   {"cuStreamCreate", 2, 2},
                                   {"cuEventCreate", 2, 2},
                                   {"cuEventCreate", 2, 20},
                                   {"a write to another GPU", 1},
                                   {"a write to another GPU", 1, 1}};
  for (const auto& [function, error, successes] : kTroubles) {
    const int live = cuda_.live(), launches = cuda_.launches();
    on_0_.write(std::vector<float>(8, 1));
    on_1_.write(std::vector<float>(8, 1));
    meet();
    cuda_.fail(function, error, successes);
    onEveryRank(
        2, [&, name = function](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)) << name; });
    cuda_.fail(nullptr, 0);
    EXPECT_EQ(on_0_.read(), std::vector<float>(8, 2)) << function;
    EXPECT_EQ(cuda_.launches(), launches) << function;
    for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
    EXPECT_EQ(cuda_.live(), live) << function;
  }
}

}  // namespace
