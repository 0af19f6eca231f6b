// Windows in memory of GPUs, with the driver of gpu_buffers_test.cpp: the GPU of the rank that puts writes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda/fake_gpu.h"
#include "gpu_one_sided.h"
#include "gpu_processes.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

// A rank's part of a window, not at the begin of its memory.
class PartOnGpu {
 public:
  static constexpr size_t kBefore = 100;
  PartOnGpu(const horing::test::FakeCuda& cuda, int gpu, horingComm_t comm, size_t elements)
      : comm_(comm), values_(cuda, gpu, std::vector<int32_t>(kBefore + elements, -1)) {
    EXPECT_HORING(
        horingCommWindowRegister(comm, begin(), elements * sizeof(int32_t), &window_, HORING_WIN_DEFAULT));
  }
  ~PartOnGpu() { close(); }
  PartOnGpu(const PartOnGpu&) = delete;
  PartOnGpu& operator=(const PartOnGpu&) = delete;

  void close() {
    if (horingWindow_t const window = forget()) {
      EXPECT_HORING(horingCommWindowDeregister(comm_, window));
    }
  }
  // Of a communicator that has ended, or will.
  horingWindow_t forget() { return std::exchange(window_, nullptr); }
  int32_t* begin() const { return values_.data() + kBefore; }
  horingWindow_t window() const { return window_; }
  std::vector<int32_t> read(size_t at, size_t count) const {
    const std::vector<int32_t> all = values_.read();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(kBefore + at);
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  const horingComm_t comm_;
  const GpuVector<int32_t> values_;
  horingWindow_t window_ = nullptr;
};

constexpr size_t kMostElements = (9 << 20) / sizeof(int32_t) + 5;

// How many ranks, and whether they met by an ID.
struct Threads {
  int ranks;
  bool by_id;
};
std::ostream& operator<<(std::ostream& out, const Threads& threads) {
  return out << threads.ranks << " ranks" << (threads.by_id ? " by ID" : "");
}

class GpuWindows : public GpuKernelTrouble, public testing::WithParamInterface<Threads> {
 protected:
  void SetUp() override {
    GpuKernelTrouble::SetUp();
    comms_ = GetParam().by_id ? makeThreads(cuda_, ranks()) : makeCommunicators(ranks(), Meeting::kInitAll);
  }
  static int ranks() { return GetParam().ranks; }
  static int next(int rank) { return (rank + 1) % ranks(); }
  static int previous(int rank) { return (rank + ranks() - 1) % ranks(); }
  static int gpuOf(int rank) { return rank; }
};

// From each kind of memory, of what the stream wrote there right before. The data are there when the waiting stream goes on.
TEST_P(GpuWindows, PutsCarryWhatIsInTheirStreamBeforeThem) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    const PartOnGpu part(cuda_, gpu, comm, 2 * kMostElements + static_cast<size_t>(rank));
    ASSERT_NE(part.window(), nullptr);
    void* own = nullptr;
    EXPECT_HORING(horingWinGetUserPtr(comm, part.window(), &own));
    EXPECT_EQ(own, part.begin());
    const GpuStream putting(cuda_, gpu), waiting(cuda_, gpu);
    int32_t from = 0;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, kMostElements}) {
      from += 1000;
      const PinnedVector<int32_t> source(cuda_, gpu, numbers(count, from + rank)), nothing(cuda_, gpu, count),
          pinned(cuda_, gpu, count);
      const GpuVector<int32_t> on_gpu(cuda_, gpu, std::vector<int32_t>(count, -2));
      EXPECT_HORING(await(previous(rank), 2, comm, waiting.get()));
      std::atomic<bool> gate{false};
      putting.waitFor(gate);
      on_gpu.writeOn(putting, source);
      on_gpu.readOn(putting, pinned);
      EXPECT_HORING(put(on_gpu.data(), count, next(rank), part.window(), 0, comm, putting));
      EXPECT_HORING(put(pinned.data(), count, next(rank), part.window(), kMostElements, comm, putting));
      // The buffers may be used again behind the puts.
      on_gpu.writeOn(putting, nothing);
      on_gpu.readOn(putting, pinned);
      ::meet(comm);
      EXPECT_FALSE(waiting.idle());
      ::meet(comm);
      gate = true;
      waiting.synchronize();
      EXPECT_EQ(part.read(0, count), numbers(count, from + previous(rank))) << count;
      EXPECT_EQ(part.read(kMostElements, count), numbers(count, from + previous(rank))) << count;
      putting.synchronize();
      ::meet(comm);
    }
  });
}

// As in windows of the host: what follows a wait of the group begins behind it.
TEST_P(GpuWindows, GroupsKeepTheOrder) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    const PartOnGpu part(cuda_, gpu, comm, 2000);
    const GpuStream stream(cuda_, gpu), other(cuda_, gpu);
    const GpuVector<int32_t> question(cuda_, gpu, numbers(1000, 7 * rank));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(put(question.data(), 1000, next(rank), part.window(), 0, comm, stream));
    EXPECT_HORING(await(previous(rank), 1, comm, stream.get()));
    EXPECT_HORING(put(part.begin(), 1000, previous(rank), part.window(), 1000, comm, other));
    EXPECT_HORING(await(next(rank), 1, comm, stream.get()));
    EXPECT_HORING(horingGroupEnd());
    stream.synchronize();
    other.synchronize();
    EXPECT_EQ(part.read(1000, 1000), numbers(1000, 7 * rank)) << "what comes back";
    ::meet(comm);
  });
}

// Parts of one allocation, and one of them of two windows.
TEST_P(GpuWindows, ShareAnAllocation) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int gpu = gpuOf(rank);
    const GpuVector<int32_t> values(cuda_, gpu, std::vector<int32_t>(3000, -1)),
        sent(cuda_, gpu, numbers(1000, rank));
    const GpuStream stream(cuda_, gpu);
    horingWindow_t windows[3] = {};
    const size_t begins[] = {0, 2000, 0};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_HORING(horingCommWindowRegister(comm, values.data() + begins[i], 4000, &windows[i], 0));
      if (i != 2) continue;
      EXPECT_HORING(horingCommWindowDeregister(comm, windows[0]));
      EXPECT_HORING(horingCommWindowRegister(comm, values.data(), 4000, &windows[0], 0));
    }
    for (const size_t i : {size_t{1}, size_t{2}})
      EXPECT_HORING(put(sent.data(), 1000, next(rank), windows[i], 0, comm, stream));
    EXPECT_HORING(await(previous(rank), 2, comm, stream.get()));
    stream.synchronize();
    const std::vector<int32_t> all = values.read();
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(all[i], previous(rank) + static_cast<int32_t>(i));
      ASSERT_EQ(all[1000 + i], -1);
      ASSERT_EQ(all[2000 + i], previous(rank) + static_cast<int32_t>(i));
    }
    for (horingWindow_t const window : windows) EXPECT_HORING(horingCommWindowDeregister(comm, window));
  });
}

constexpr Threads kThreads[] = {{1, false}, {3, false}, {2, true}, {4, true}};
INSTANTIATE_TEST_SUITE_P(Threads, GpuWindows, testing::ValuesIn(kThreads));

class GpuWindowsTrouble : public GpuKernelTrouble {
 protected:
  // On every rank, for a part on its GPU, or, if that is one of `on_host`, of the host.
  void expectNoWindow(const std::vector<horingComm_t>& comms, const std::vector<int>& on_host = {}) {
    const int pinned = cuda_.calls("cuMemHostAlloc");
    onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
      const horingComm_t comm = comms[static_cast<size_t>(rank)];
      const GpuVector<int32_t> on_gpu(cuda_, rank, numbers(8, 0));
      std::vector<int32_t> values(8);
      const bool is_on_host = std::find(on_host.begin(), on_host.end(), rank) != on_host.end();
      horingWindow_t window = reinterpret_cast<horingWindow_t>(&values);
      EXPECT_HORING(
          horingCommWindowRegister(comm, is_on_host ? values.data() : on_gpu.data(), 32, &window, 0));
      EXPECT_EQ(window, nullptr) << "rank " << rank;
      EXPECT_HORING(horingCommWindowDeregister(comm, window));
    });
    EXPECT_EQ(cuda_.calls("cuMemHostAlloc"), pinned) << "what is no window pins nothing";
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  }
};

// Buffers of another GPU than that of the memory for the window.
TEST_F(GpuWindowsTrouble, NoWindowBindsNothing) {
  comms_ = makeNodes(2, "socket");
  onEveryRank(2, [&](int rank) {
    const GpuVector<int32_t> memory(cuda_, rank, numbers(8, 0));
    horingWindow_t window = nullptr;
    EXPECT_HORING(horingCommWindowRegister(comm(rank), memory.data(), 32, &window, 0));
    EXPECT_EQ(window, nullptr);
    const GpuVector<float> data(cuda_, 2 + rank, std::vector<float>(8, 1));
    EXPECT_HORING(add(rank, data.data(), nullptr));
    EXPECT_EQ(data.read(), std::vector<float>(8, 2));
  });
}

// Memory of GPUs gave no window once: programs suspend without a thought of it.
TEST_F(GpuWindowsTrouble, EndsWithASuspension) {
  comms_ = makeThreads(cuda_, 2);
  onEveryRank(2, [&](int rank) {
    const CurrentGpu current(cuda_, rank);
    PartOnGpu part(cuda_, rank, comm(rank), 1000), other(cuda_, rank, comm(rank), 1000);
    EXPECT_NE(part.window(), nullptr);
    EXPECT_HORING(horingCommSuspend(comm(rank), HORING_SUSPEND_MEM));
    other.close();
    EXPECT_HORING(horingCommWindowDeregister(comm(rank), nullptr));
    EXPECT_HORING(horingCommResume(comm(rank)));
    const GpuStream stream(cuda_, rank);
    const GpuVector<int32_t> data(cuda_, rank, numbers(8, 0));
    EXPECT_TRUE(refuses(put(data.data(), 8, 1 - rank, part.window(), 0, comm(rank), stream),
                        horingInvalidArgument, "is not a window of this communicator"));
    horingWindow_t const window = part.window();
    part.close();
    EXPECT_TRUE(refuses(horingCommWindowDeregister(comm(rank), window), horingInvalidArgument,
                        "is not a window of this communicator"));
    EXPECT_HORING(add(rank, on(rank).data(), nullptr));
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 2));
  });
}

TEST_F(GpuWindowsTrouble, NoWindowWhereSomeRankCannotWriteIntoAnother) {
  expectNoWindow(makeThreads(cuda_, 3), {1});
  expectNoWindow(makeNodes(2, "socket"));
  {
    const Setting path("HORING_GPU_PATH", "staged");
    expectNoWindow(makeThreads(cuda_, 2));
  }
  cuda_.setKernels(nullptr);
  expectNoWindow(makeThreads(cuda_, 2));
}

TEST_F(GpuWindowsTrouble, NoWindowWhereTheDriverSharesNoMemory) {
  const std::vector<horingComm_t> comms = makeThreads(cuda_, 2);
  onEveryRank(2, [&](int rank) {
    const GpuVector<float> data(cuda_, rank, std::vector<float>(8, 1));
    EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum,
                                  comms[static_cast<size_t>(rank)], nullptr));
  });
  cuda_.fail("cuIpcGetMemHandle", 999, 1);  // one of both ranks
  expectNoWindow(comms);
}

TEST_F(GpuWindowsTrouble, OfASlowCopyHoldsItsSignalBack) {
  comms_ = makeThreads(cuda_, 2);
  onEveryRank(2, [&](int rank) {
    const PartOnGpu part(cuda_, rank, comm(rank), 1000);
    const GpuVector<int32_t> data(cuda_, rank, numbers(1000, rank));
    const GpuStream putting(cuda_, rank), waiting(cuda_, rank);
    ::meet(comm(rank));
    cuda_.slowCopies(std::numeric_limits<int64_t>::max());
    EXPECT_HORING(put(data.data(), 1000, 1 - rank, part.window(), 0, comm(rank), putting));
    EXPECT_HORING(await(1 - rank, 1, comm(rank), waiting.get()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(waiting.idle());
    ::meet(comm(rank));
    cuda_.slowCopies(0);
    waiting.synchronize();
    EXPECT_EQ(part.read(0, 1000), numbers(1000, 1 - rank));
    putting.synchronize();
    ::meet(comm(rank));
  });
}

TEST_F(GpuWindowsTrouble, IsNamedWhereAPutIsWrong) {
  comms_ = makeThreads(cuda_, 2);
  std::vector<std::unique_ptr<PartOnGpu>> parts(2);
  onEveryRank(2, [&](int rank) {
    parts[static_cast<size_t>(rank)] = std::make_unique<PartOnGpu>(cuda_, rank, comm(rank), 1000);
  });
  const GpuStream stream(cuda_, 0);
  const GpuVector<int32_t> here(cuda_, 0, numbers(1000, 0)), there(cuda_, 1, numbers(1000, 0));
  const std::vector<int32_t> pageable = numbers(1000, 0);
  const horingWindow_t window = parts[0]->window();
  const auto put_from = [&](const int32_t* data, size_t element, void* on) {
    return horingPutSignal(data, 1000, horingInt32, 1, window, 4 * element, 0, 0, 0, comm(0), on);
  };
  EXPECT_TRUE(refuses(put_from(here.data(), 1, stream.get()), horingInvalidArgument, "leaves the window"));
  EXPECT_TRUE(refuses(put_from(pageable.data(), 0, stream.get()), horingInvalidUsage, "is not pinned"));
  EXPECT_TRUE(refuses(put_from(there.data(), 0, stream.get()), horingInvalidUsage, "is memory of GPU 1"));
  EXPECT_TRUE(refuses(put_from(here.data(), 0, nullptr), horingInvalidUsage, "expected a cudaStream_t"));
  EXPECT_HORING(put_from(here.data(), 0, stream.get()));
  EXPECT_HORING(await(0, 1, comm(1), nullptr));
  EXPECT_EQ(parts[1]->read(0, 1000), numbers(1000, 0));
  // The target has closed it: its source hears of that.
  parts[1]->close();
  EXPECT_HORING(put_from(here.data(), 0, stream.get()));
  stream.synchronize();
  EXPECT_TRUE(
      refuses(await(0, 1, comm(1), nullptr), horingInvalidUsage, "rank 1 does not take a put of rank 0"));
  EXPECT_EQ(heardError(0), horingRemoteError);
  parts.clear();
}

horingResult_t heardErrorOf(horingComm_t comm) {
  horingResult_t heard = horingSuccess;
  for (int look = 0; heard == horingSuccess && look < 60'000; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_HORING(horingCommGetAsyncError(comm, &heard));
  }
  return heard;
}

// Each process a rank with its GPU, into whose memory others write by CUDA IPC.
class GpuWindowsProcesses : public GpuProcesses {
 protected:
  void putAround() {
    const int next = (me_.rank + 1) % me_.ranks, previous = (me_.rank + me_.ranks - 1) % me_.ranks;
    const GpuStream stream(cuda_, me_.rank), waiting(cuda_, me_.rank);
    const PartOnGpu part(cuda_, me_.rank, comm_, kMostElements);
    ASSERT_NE(part.window(), nullptr);
    for (int round = 0; round < 3; ++round) {
      const GpuVector<int32_t> data(cuda_, me_.rank, numbers(kMostElements, 100 * round + me_.rank));
      EXPECT_HORING(await(previous, 1, comm_, waiting.get()));
      EXPECT_HORING(put(data.data(), kMostElements, next, part.window(), 0, comm_, stream));
      waiting.synchronize();
      EXPECT_EQ(part.read(0, kMostElements), numbers(kMostElements, 100 * round + previous)) << round;
      stream.synchronize();
      meet(comm_);
    }
  }
};

TEST_F(GpuWindowsProcesses, DISABLED_PutAround) {
  join(Membership::fromEnvironment());
  putAround();
}
TEST_F(GpuWindowsProcesses, PutAround) {
  host("GpuWindowsProcesses.DISABLED_PutAround", 3);
  putAround();
  expectOthersEndWell();
}

// Rank 0 puts into the memory of rank 1's process, and its stream comes to that when the window has ended.
class GpuWindowsLatePuts : public GpuProcesses {
 protected:
  static constexpr size_t kElements = 100'000;
  static std::vector<int32_t> sent() { return numbers(kElements, 5); }
  int closed() const { return cuda_.calls("cuIpcCloseMemHandle"); }
  // `end` gets the two windows of rank 0, of which it puts into the first.
  template <typename End>
  void putLate(const End& end) {
    host("GpuWindowsLatePuts.DISABLED_AreAwaited");
    const GpuStream stream(cuda_, 0);
    const GpuVector<int32_t> data(cuda_, 0, sent());
    PartOnGpu part(cuda_, 0, comm_, kElements), other(cuda_, 0, comm_, 1);
    ASSERT_NE(part.window(), nullptr);
    std::atomic<bool> gate{false};
    stream.waitFor(gate);
    EXPECT_HORING(put(data.data(), kElements, 1, part.window(), 0, comm_, stream));
    end(part, other);
    gate = true;
    stream.synchronize();  // a copy into memory that is closed by now ends the program
    const int closed_before = closed();
    const bool is_last = other.window() != nullptr;
    other.close();
    if (is_last && comm_) {
      EXPECT_EQ(closed(), closed_before + 2) << "both windows";
    }
    if (comm_) {
      EXPECT_HORING(horingCommDestroy(std::exchange(comm_, nullptr)));
    }
    for (const auto& each : others_) EXPECT_EQ(each->wait(), 0);
    others_.clear();
  }
};

// Whatever has become of the communicator.
TEST_F(GpuWindowsLatePuts, DISABLED_AreAwaited) {
  join(Membership::fromEnvironment());
  PartOnGpu part(cuda_, me_.rank, comm_, kElements), other(cuda_, me_.rank, comm_, 1);
  const auto have_arrived = [&] { return part.read(0, kElements) == sent(); };
  for (int look = 0; !have_arrived() && look < 20'000; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(have_arrived());
}

TEST_F(GpuWindowsLatePuts, ArriveAfterDeregister) {
  putLate([&](PartOnGpu& part, PartOnGpu&) {
    const int closed_before = closed();
    part.close();
    EXPECT_EQ(closed(), closed_before) << "the copy is still to come";
  });
}

TEST_F(GpuWindowsLatePuts, HoldAGroupForASecond) {
  putLate([&](PartOnGpu& part, PartOnGpu& other) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_HORING(horingGroupStart());
    part.close();
    other.close();
    EXPECT_HORING(horingGroupEnd());
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(1900));
  });
}

TEST_F(GpuWindowsLatePuts, ArriveAfterATimeout) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  putLate([&](PartOnGpu& part, PartOnGpu&) {
    EXPECT_EQ(heardErrorOf(comm_), horingTimeout);
    const int closed_before = closed();
    part.close();
    EXPECT_EQ(closed(), closed_before) << "the copy is still to come";
  });
}

TEST_F(GpuWindowsLatePuts, ArriveAfterAbort) {
  putLate([&](PartOnGpu& part, PartOnGpu& other) {
    EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr)));
    part.forget();
    other.forget();
  });
}

TEST_F(GpuWindowsLatePuts, ArriveAfterRevokeAndDestroy) {
  putLate([&](PartOnGpu& part, PartOnGpu& other) {
    EXPECT_HORING(horingCommRevoke(comm_, HORING_REVOKE_DEFAULT));
    EXPECT_HORING(horingCommDestroy(std::exchange(comm_, nullptr)));
    part.forget();
    other.forget();
  });
}

// So that the memory may be freed right behind the call.
class GpuWindowsLeft : public GpuProcesses {
 protected:
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  using Parts = std::vector<std::unique_ptr<PartOnGpu>>;
  Parts open(size_t windows) {
    Parts parts;
    while (parts.size() < windows) parts.push_back(std::make_unique<PartOnGpu>(cuda_, me_.rank, comm_, 1000));
    EXPECT_NE(parts.front()->window(), nullptr);
    meet(comm_);
    return parts;
  }
  // How many windows were left, by the log.
  template <typename Call>
  static int warningsOf(const Call& call) {
    testing::internal::CaptureStderr();
    call();
    const std::string log = testing::internal::GetCapturedStderr(), words = "was deregistered, and";
    int found = 0;
    for (size_t at = 0; (at = log.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  }
};

TEST_F(GpuWindowsLeft, DISABLED_ByOneThatIsLate) {
  join(Membership::fromEnvironment());
  PartOnGpu part(cuda_, me_.rank, comm_, 1000);
  meet(comm_);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const int64_t before = now();
  part.close();
  EXPECT_HORING(horingSend(&before, 1, horingInt64, 0, comm_, nullptr));
}

TEST_F(GpuWindowsLeft, ByAllWhenDeregisterReturns) {
  host("GpuWindowsLeft.DISABLED_ByOneThatIsLate");
  {
    PartOnGpu part(cuda_, 0, comm_, 1000);
    ASSERT_NE(part.window(), nullptr);
    const int closed_before = cuda_.calls("cuIpcCloseMemHandle");
    meet(comm_);
    part.close();
    const int64_t after = now();
    EXPECT_EQ(cuda_.calls("cuIpcCloseMemHandle"), closed_before + 1);
    int64_t theirs = INT64_MAX;
    EXPECT_HORING(horingRecv(&theirs, 1, horingInt64, 1, comm_, nullptr));
    EXPECT_GE(after, theirs);
  }
  expectOthersEndWell();
}

TEST_F(GpuWindowsLeft, DISABLED_Backwards) {
  join(Membership::fromEnvironment());
  Parts parts = open(8);
  EXPECT_EQ(warningsOf([&] {
              while (!parts.empty()) parts.pop_back();
            }),
            0);
}

// Each rank closes what the other waits for.
TEST_F(GpuWindowsLeft, InOppositeOrder) {
  host("GpuWindowsLeft.DISABLED_Backwards");
  {
    const Parts parts = open(8);
    const int64_t before = now();
    EXPECT_EQ(warningsOf([&] {
                for (const auto& each : parts) each->close();
              }),
              0);
    EXPECT_LT(now() - before, 1'000'000'000);
  }
  expectOthersEndWell();
}

TEST_F(GpuWindowsLeft, DISABLED_AndDies) {
  join(Membership::fromEnvironment());
  Parts parts = open(5);
  ::_exit(0);
}

TEST_F(GpuWindowsLeft, WithoutAWaitForARankThatHasDied) {
  host("GpuWindowsLeft.DISABLED_AndDies");
  Parts parts = open(5);
  (void)others_.front()->wait();
  EXPECT_NE(heardErrorOf(comm_), horingSuccess);
  const int64_t before = now();
  EXPECT_EQ(warningsOf([&] { parts.clear(); }), 0);
  EXPECT_LT(now() - before, 1'000'000'000);
  EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr)));
}

// Later calls do not wait for it again.
TEST_F(GpuWindowsLeft, DISABLED_ByOneThatIsLater) {
  join(Membership::fromEnvironment());
  Parts parts = open(2);
  meet(comm_);
  EXPECT_EQ(warningsOf([&] { parts[0]->close(); }), 1);
  EXPECT_EQ(warningsOf([&] { parts[1]->close(); }), 0);
  meet(comm_);
}

TEST_F(GpuWindowsLeft, IsAwaitedOnce) {
  host("GpuWindowsLeft.DISABLED_ByOneThatIsLater");
  Parts parts = open(2);
  EXPECT_EQ(warningsOf([&] { parts[1]->close(); }), 1);
  meet(comm_);
  meet(comm_);
  parts.clear();
  expectOthersEndWell();
}

class GpuWindowsOfTwo : public GpuWindowsLeft {
 protected:
  // In an order that differs by rank.
  void leave(bool is_late) {
    horingComm_t two = nullptr;
    ASSERT_HORING(horingCommSplit(comm_, 0, me_.rank, &two, nullptr));
    {
      PartOnGpu part(cuda_, me_.rank, comm_, 1000), other(cuda_, me_.rank, two, 1000);
      ASSERT_NE(other.window(), nullptr);
      meet(comm_);
      if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const int64_t before = now();
      const int closed_before = cuda_.calls("cuIpcCloseMemHandle");
      EXPECT_EQ(warningsOf([&] {
                  EXPECT_HORING(horingGroupStart());
                  (is_late ? part : other).close();
                  (is_late ? other : part).close();
                  EXPECT_HORING(horingGroupEnd());
                }),
                0);
      const int64_t after = now();
      EXPECT_EQ(cuda_.calls("cuIpcCloseMemHandle"), closed_before + 2);
      int64_t theirs = before;
      EXPECT_HORING(horingBroadcast(&theirs, &theirs, 1, horingInt64, 1, comm_, nullptr));
      EXPECT_GE(after, theirs);
    }
    EXPECT_HORING(horingCommDestroy(two));
  }
};

TEST_F(GpuWindowsOfTwo, DISABLED_CommunicatorsInAGroup) {
  join(Membership::fromEnvironment());
  leave(true);
}
TEST_F(GpuWindowsOfTwo, CommunicatorsInAGroup) {
  host("GpuWindowsOfTwo.DISABLED_CommunicatorsInAGroup");
  leave(false);
  expectOthersEndWell();
}

TEST_F(GpuWindowsLeft, DISABLED_BeforeAPut) {
  join(Membership::fromEnvironment());
  Parts parts = open(2);
  parts[1]->close();
  parts[0]->close();
  meet(comm_);
  EXPECT_TRUE(
      refuses(await(0, 1, comm_, nullptr), horingInvalidUsage, "rank 1 does not take a put of rank 0"));
}

// A copy into memory that is closed by now would end the program.
TEST_F(GpuWindowsLeft, TakesNoPut) {
  host("GpuWindowsLeft.DISABLED_BeforeAPut");
  {
    Parts parts = open(2);
    parts[0]->close();
    meet(comm_);
    const GpuStream stream(cuda_, 0);
    const GpuVector<int32_t> data(cuda_, 0, numbers(1000, 5));
    EXPECT_HORING(put(data.data(), 1000, 1, parts[1]->window(), 0, comm_, stream));
    stream.synchronize();
    EXPECT_EQ(heardErrorOf(comm_), horingRemoteError);
  }
  expectOthersEndWell();
}

}  // namespace
