// Ranks that are processes, one of which makes its calls long before the others: no call on a stream waits for them, not even the
// first of its kind, on whatever nodes they are, and whether or not kernels have room for its plan. Emulated.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "gpu_processes.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

constexpr size_t kElements = 1000;
constexpr const char* kMayBegin = "HORING_TESTS_MAY_BEGIN";  // the other ranks begin when this file exists
constexpr const char* kRanksOfNode = "HORING_TESTS_RANKS_OF_NODE";
constexpr const char* kNoRoom = "HORING_TESTS_NO_ROOM";  // the last rank, alone, has no memory for plans

struct LateJob {
  int ranks, ranks_of_node;
  bool has_room = true;
};
constexpr LateJob kLateJobs[] = {{2, 2}, {4, 4}, {2, 1}, {4, 2}, {3, 1}, {2, 2, false}, {4, 2, false}};

std::vector<float> allOf(size_t count, int value) {
  return std::vector<float>(count, static_cast<float>(value));
}

// A rank's input and output for a call of each kind; in separate memory, so that all may be in flight.
struct CallsOfEachKind {
  using Vector = GpuVector<float>;
  CallsOfEachKind(const FakeCuda& cuda, const Membership& me)
      : ranks(me.ranks),
        sum(cuda, me.rank, allOf(kElements, me.rank + 1)),
        one(cuda, me.rank, allOf(kElements, me.rank + 1)),
        all(cuda, me.rank, allOf(kElements * static_cast<size_t>(ranks), 0)),
        every(cuda, me.rank, allOf(kElements * static_cast<size_t>(ranks), me.rank + 1)),
        part(cuda, me.rank, allOf(kElements, 0)) {
    for (int root = 0; root < ranks; ++root)
      given.push_back(std::make_unique<Vector>(cuda, me.rank, allOf(kElements, me.rank + 1)));
  }
  void make(horingComm_t comm, void* stream) const {
    EXPECT_HORING(horingAllReduce(sum.data(), sum.data(), kElements, horingFloat, horingSum, comm, stream));
    EXPECT_HORING(horingAllGather(one.data(), all.data(), kElements, horingFloat, comm, stream));
    EXPECT_HORING(
        horingReduceScatter(every.data(), part.data(), kElements, horingFloat, horingSum, comm, stream));
    for (int root = 0; root < ranks; ++root) {
      float* const data = given[static_cast<size_t>(root)]->data();
      EXPECT_HORING(horingBroadcast(data, data, kElements, horingFloat, root, comm, stream));
    }
  }
  void expectResults() const {
    std::vector<float> gathered;
    for (int rank = 0; rank < ranks; ++rank)
      gathered.resize(gathered.size() + kElements, static_cast<float>(rank + 1));
    const std::vector<float> total = allOf(kElements, ranks * (ranks + 1) / 2);
    EXPECT_EQ(sum.read(), total);
    EXPECT_EQ(all.read(), gathered);
    EXPECT_EQ(part.read(), total);
    for (int root = 0; root < ranks; ++root)
      EXPECT_EQ(given[static_cast<size_t>(root)]->read(), allOf(kElements, root + 1));
  }

  const int ranks;
  const Vector sum, one, all, every, part;
  std::vector<std::unique_ptr<Vector>> given;
};

class GpuLateRanksTrouble : public GpuProcesses {
 protected:
  void join(const Membership& membership) override {
    const Setting timeout("HORING_TIMEOUT_MS", "20000");  // of a call that waits for other ranks
    const CurrentGpu current(cuda_, membership.rank);
    const Setting node("HORING_HOSTID",
                       "node " + std::to_string(membership.rank / std::atoi(std::getenv(kRanksOfNode))));
    std::optional<Setting> no_room;
    if (std::getenv(kNoRoom) && membership.rank == membership.ranks - 1)
      no_room.emplace("HORING_TESTS_GPU_PLAN_KB", 1);
    GpuProcesses::join(membership);
  }
  // As one of the late ranks.
  void joinLate() {
    join(Membership::fromEnvironment());
    while (::access(std::getenv(kMayBegin), F_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void hostLate(const char* test, const LateJob& job) {
    folder_.emplace();
    const Setting may_begin(kMayBegin, folder_->path() / "may_begin"),
        ranks_of_node(kRanksOfNode, job.ranks_of_node);
    std::optional<Setting> no_room;
    if (!job.has_room) no_room.emplace(kNoRoom, 1);
    host(test, job.ranks);
  }
  void letOthersBegin() const { std::ofstream(folder_->path() / "may_begin") << "yes"; }

  std::optional<horing::test::TemporaryFolder> folder_;
};

TEST_F(GpuLateRanksTrouble, DISABLED_CallAll) {
  joinLate();
  const CallsOfEachKind calls(cuda_, me_);
  const GpuStream stream(cuda_, me_.rank);
  calls.make(comm_, stream.get());
  stream.synchronize();
  calls.expectResults();
}

TEST_F(GpuLateRanksTrouble, IsNoneForTheFirstCallsOfOthers) {
  for (const LateJob& job : kLateJobs) {
    SCOPED_TRACE(std::to_string(job.ranks) + " ranks, " + std::to_string(job.ranks_of_node) + " a node");
    const Setting debug("HORING_DEBUG", "info");
    testing::internal::CaptureStderr();
    hostLate("GpuLateRanksTrouble.DISABLED_CallAll", job);
    const CallsOfEachKind calls(cuda_, me_);
    const GpuStream stream(cuda_, 0);
    calls.make(comm_, stream.get());
    EXPECT_FALSE(stream.idle());
    letOthersBegin();
    stream.synchronize();
    calls.expectResults();
    expectOthersEndWell();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("its plan does not fit") == std::string::npos, job.has_room) << log;
  }
}

TEST_F(GpuLateRanksTrouble, DISABLED_CallNothing) {
  joinLate();
}

TEST_F(GpuLateRanksTrouble, OfAnyLengthEndsWithAnAbort) {
  for (const LateJob& job : kLateJobs) {
    hostLate("GpuLateRanksTrouble.DISABLED_CallNothing", job);
    const CallsOfEachKind calls(cuda_, me_);
    const GpuStream stream(cuda_, 0);
    calls.make(comm_, stream.get());
    std::thread([&] { EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr))); }).join();
    stream.synchronize();
    letOthersBegin();
    for (const auto& other : others_) EXPECT_EQ(other->wait(), 0);
    others_.clear();
  }
}

// Long before the deadline.
TEST_F(GpuLateRanksTrouble, WhoDieBeforeTheyBeginAreNamed) {
  for (const LateJob& job : kLateJobs) {
    hostLate("GpuLateRanksTrouble.DISABLED_CallNothing", job);
    const CallsOfEachKind calls(cuda_, me_);
    const GpuStream stream(cuda_, 0);
    calls.make(comm_, stream.get());
    const auto from = std::chrono::steady_clock::now();
    others_.back()->kill();
    stream.synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(10));
    EXPECT_TRUE(refuses(add(calls.sum, 8, stream.get()), horingRemoteError,
                        ("rank " + std::to_string(job.ranks - 1)).c_str()));
    letOthersBegin();
    EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr)));
    others_.clear();
  }
}

TEST_F(GpuLateRanksTrouble, DISABLED_CallSomethingElse) {
  joinLate();
  const GpuVector<float> data(cuda_, 1, allOf(8, 1));
  EXPECT_TRUE(refuses(horingBroadcast(data.data(), data.data(), 8, horingFloat, 0, comm_, nullptr),
                      horingInvalidUsage, "rank 0 called all_reduce"));
}

// Neither has asked the other about its call.
TEST_F(GpuLateRanksTrouble, WhoCallSomethingElseIsNamed) {
  for (const LateJob& job : {LateJob{2, 2}, LateJob{2, 1}}) {
    hostLate("GpuLateRanksTrouble.DISABLED_CallSomethingElse", job);
    const GpuVector<float> data(cuda_, 0, allOf(8, 1));
    const GpuStream stream(cuda_, 0);
    EXPECT_HORING(add(data, 8, stream.get()));
    letOthersBegin();
    stream.synchronize();
    EXPECT_TRUE(refuses(add(data, 8, stream.get()), horingInvalidUsage, "rank 1 called broadcast"));
    expectOthersEndWell();
  }
}

}  // namespace
