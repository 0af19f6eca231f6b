// horing.hpp, through the shared library.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>

#include "horing/horing.hpp"
#include "ranks.h"

namespace {

using horing::Communicator;
using horing::Error;

// The code with which the call fails; horingSuccess if it does not.
template <typename Call>
horingResult_t failureOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.result();
  }
  return horingSuccess;
}

enum class Tiny : uint8_t {};

}  // namespace

template <>
struct horing::ElementType<Tiny> {
  static constexpr horingDataType_t value = horingFloat8e5m2;
};

namespace {

static_assert(horing::kElementType<std::vector<int32_t>> == horingInt32);
static_assert(horing::kElementType<std::vector<unsigned long>> == horingUint64);
static_assert(horing::kElementType<std::array<long long, 2>> == horingInt64);
static_assert(horing::kElementType<std::span<const double>> == horingFloat64);
static_assert(horing::kElementType<std::vector<Tiny>> == horingFloat8e5m2);
static_assert(!horing::Element<bool> && !horing::Element<short> && !horing::Element<std::string>);
static_assert(!horing::Buffer<std::list<float>>);
// A receive buffer outlives the call, and may be written.
static_assert(horing::WritableBuffer<std::vector<float>&> && horing::WritableBuffer<std::span<float>>);
static_assert(!horing::WritableBuffer<std::vector<float>> &&
              !horing::WritableBuffer<const std::vector<float>&>);
static_assert(!horing::WritableBuffer<std::span<const float>>);
static_assert(!std::is_copy_constructible_v<Communicator> && !std::is_copy_assignable_v<Communicator>);
static_assert(std::is_nothrow_move_constructible_v<Communicator> &&
              std::is_nothrow_move_assignable_v<Communicator>);

TEST(Cpp, RanksMeetByIdAndCompute) {
  constexpr int kRanks = 3;
  const horingUniqueId id = horing::makeUniqueId();
  onEveryRank(kRanks, [&](int rank) {
    Communicator comm(id, kRanks, rank);
    EXPECT_EQ(comm.rank(), rank);
    EXPECT_EQ(comm.size(), kRanks);
    const std::vector<float> mine(kRanks, static_cast<float>(rank + 1));
    std::vector<float> sum(kRanks);
    comm.allReduce(mine, sum);
    EXPECT_EQ(sum, std::vector<float>(kRanks, 6));
    std::array<float, 1> block{};
    comm.reduceScatter(mine, block, horingMax);
    EXPECT_EQ(block[0], 3);
    comm.allGather(std::span(mine).first(1), sum);
    EXPECT_EQ(sum, (std::vector<float>{1, 2, 3}));
    std::array<int64_t, 2> both = {rank, 1};
    comm.allReduce(both);
    EXPECT_EQ(both, (std::array<int64_t, 2>{3, 3}));
    EXPECT_EQ(comm.asyncError(), horingSuccess);
    EXPECT_GT(comm.memoryBytes(), 0u);
    EXPECT_NE(comm.describe().find("rank"), std::string::npos);
    EXPECT_EQ(comm.describe(8).size(), 7u);
    comm.destroy();
    EXPECT_FALSE(comm);
  });
}

TEST(Cpp, CollectivesWithARootMoveBlocks) {
  constexpr int kRanks = 3, kRoot = 1;
  std::vector<Communicator> comms = Communicator::all(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    const std::vector<int> none;
    std::vector<int> nothing;
    const std::vector<int> mine = {10 * rank, 10 * rank + 1, 10 * rank + 2};
    std::vector<int> got(kRanks);
    comm.broadcast(rank == kRoot ? mine : none, got, kRoot);
    EXPECT_EQ(got, (std::vector<int>{10, 11, 12}));
    std::vector<int> both = mine;
    comm.broadcast(both, kRoot);
    EXPECT_EQ(both, got);
    comm.reduce(mine, rank == kRoot ? got : nothing, kRoot);
    if (rank == kRoot) {
      EXPECT_EQ(got, (std::vector<int>{30, 33, 36}));
    }
    both = mine;
    comm.reduce(both, kRoot, horingMin);
    if (rank == kRoot) {
      EXPECT_EQ(both, (std::vector<int>{0, 1, 2}));
    }
    comm.gather(std::span(mine).first(1), rank == kRoot ? got : nothing, kRoot);
    if (rank == kRoot) {
      EXPECT_EQ(got, (std::vector<int>{0, 10, 20}));
    }
    std::array<int, 1> block{};
    comm.scatter(rank == kRoot ? mine : none, block, kRoot);
    EXPECT_EQ(block[0], 10 + rank);
    comm.allToAll(mine, got);
    EXPECT_EQ(got, (std::vector<int>{rank, 10 + rank, 20 + rank}));
  });
}

TEST(Cpp, BlocksOfDifferentSizesMove) {
  constexpr int kRanks = 2;
  std::vector<Communicator> comms = Communicator::all(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    const std::array<size_t, kRanks> counts = {1, 2};
    const std::vector<int> mine(counts[static_cast<size_t>(rank)], rank + 1);
    std::vector<int> all(3), nothing;
    comm.allGatherV(mine, all, counts);
    EXPECT_EQ(all, (std::vector<int>{1, 2, 2}));
    std::vector<int> block(mine.size());
    comm.reduceScatterV(all, counts, block);
    EXPECT_EQ(block, std::vector<int>(mine.size(), 2 * (rank + 1)));
    all.assign(3, 0);
    comm.gatherV(mine, rank == 0 ? all : nothing,
                 rank == 0 ? std::span<const size_t>(counts) : std::span<const size_t>(), 0);
    if (rank == 0) {
      EXPECT_EQ(all, (std::vector<int>{1, 2, 2}));
    }
    comm.scatterV(rank == 0 ? all : nothing,
                  rank == 0 ? std::span<const size_t>(counts) : std::span<const size_t>(), block, 0);
    EXPECT_EQ(block, mine);
    // Rank 0 sends 1 to itself and 2 to rank 1; rank 1 sends 2 to rank 0 and none to itself.
    const std::array<size_t, kRanks> sent = rank == 0 ? counts : std::array<size_t, kRanks>{2, 0};
    const std::array<size_t, kRanks> received = rank == 0 ? counts : std::array<size_t, kRanks>{2, 0};
    const std::vector<int> out(sent[0] + sent[1], rank + 7);
    std::vector<int> in(received[0] + received[1]);
    comm.allToAllV(out, sent, in, received);
    EXPECT_EQ(in, rank == 0 ? (std::vector<int>{7, 8, 8}) : (std::vector<int>{7, 7}));
    EXPECT_EQ(failureOf([&] { comm.allGatherV(mine, all, std::span(counts).first(1)); }),
              horingInvalidArgument);
  });
}

TEST(Cpp, RanksExchangeMessagesInAGroup) {
  constexpr int kRanks = 2;
  std::vector<Communicator> comms = Communicator::all(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    const std::array<double, 2> mine = {rank + 0.5, rank + 0.25};
    std::array<double, 2> theirs{};
    horing::group([&] {
      comm.send(mine, 1 - rank);
      comm.receive(theirs, 1 - rank);
    });
    EXPECT_EQ(theirs, (std::array<double, 2>{1 - rank + 0.5, 1 - rank + 0.25}));
  });
}

TEST(Cpp, AGroupIsClosedAndDroppedWhenItsCallsThrow) {
  std::vector<Communicator> comms = Communicator::all(2);
  std::array<int, 1> sent = {7}, received{};
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THROW(horing::group([&] {
                 horing::group([&] { comms[1].receive(received, 0); });
                 throw std::out_of_range("mine");
               }),
               std::out_of_range);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10)) << "waited for a message";
  EXPECT_EQ(received[0], 0);
  horing::group([&] {
    comms[0].send(sent, 1);
    comms[1].receive(received, 0);
  });
  EXPECT_EQ(received, sent);
  EXPECT_EQ(horingGroupEnd(), horingInvalidUsage) << "the group is still open";
}

TEST(Cpp, AGroupMayMakeCommunicatorsThatDoNotBlock) {
  const horingUniqueId id = horing::makeUniqueId();
  horingConfig_t config = horing::Config{.blocking = false}.forC();
  std::array<horingComm_t, 2> made{};
  horing::group([&] {
    for (int rank = 0; rank < 2; ++rank)
      horing::checkBegun(horingCommInitRankConfig(&made[static_cast<size_t>(rank)], 2, id, rank, &config));
  });
  for (const horingComm_t comm : made) Communicator::adopt(comm).abort();
}

TEST(Cpp, SettingsAreThoseOfC) {
  const horing::Config config{.max_ctas = 4, .traffic_class = 8, .net_name = "Socket", .name = "jobs"};
  const horingConfig_t c = config.forC();
  EXPECT_EQ(c.maxCTAs, 4);
  EXPECT_EQ(c.trafficClass, 8);
  EXPECT_STREQ(c.netName, "Socket");
  EXPECT_STREQ(c.commName, "jobs");
  EXPECT_EQ(horing::Config().forC().maxCTAs, HORING_CONFIG_UNDEF_INT);
  EXPECT_EQ(horing::Config().forC().netName, nullptr);
  const horingOptions_t o =
      horing::Options{.timeout_ms = 5, .init_timeout_ms = 6, .gpu_kernels = false}.forC();
  EXPECT_EQ(o.timeoutMs, 5);
  EXPECT_EQ(o.initTimeoutMs, 6);
  EXPECT_EQ(o.gpuKernels, 0);
  EXPECT_EQ(o.reproducible, HORING_CONFIG_UNDEF_INT);
}

TEST(Cpp, StreamsRunBehindTheCaller) {
  constexpr int kRanks = 2;
  std::vector<Communicator> comms = Communicator::all(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    horing::Stream first;
    horing::Stream stream = std::move(first);
    EXPECT_EQ(first.handle(), nullptr);
    std::vector<float, horing::Allocator<float>> data(1000, 1.5F);
    comm.allReduce(data, horingSum, stream.handle());
    std::atomic<int> status{-1};
    stream.whenComplete([&](horingResult_t result) { status = result; });
    stream.synchronize();
    EXPECT_TRUE(stream.complete());
    EXPECT_EQ(data.back(), 3);
    // The callback may come after synchronize() has returned.
    for (int wait = 0; status == -1 && wait < 10'000; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(status, horingSuccess);
  });
}

TEST(Cpp, MovesHandTheCommunicatorOn) {
  std::vector<Communicator> comms = Communicator::all(2);
  ASSERT_EQ(comms.size(), 2u);
  const horingComm_t handle = comms[0].handle();
  Communicator moved = std::move(comms[0]);
  EXPECT_EQ(moved.handle(), handle);
  EXPECT_FALSE(comms[0]);
  comms[1] = std::move(moved);  // gives back what comms[1] had
  EXPECT_EQ(comms[1].rank(), 0);
  horingComm_t released = comms[1].release();
  EXPECT_FALSE(comms[1]);
  EXPECT_EQ(Communicator::adopt(released).size(), 2);
}

TEST(Cpp, SizesThatDoNotFitAreRefusedBeforeAnythingIsSent) {
  Communicator comm = std::move(Communicator::all(1).front());
  std::vector<int32_t> two(2), three(3);
  EXPECT_EQ(failureOf([&] { comm.allReduce(two, three); }), horingInvalidArgument);
  EXPECT_EQ(failureOf([&] { comm.reduceScatter(three, two); }), horingInvalidArgument);
  EXPECT_EQ(failureOf([&] { comm.allGather(two, three); }), horingInvalidArgument);
  EXPECT_EQ(comm.asyncError(), horingSuccess);
  comm.allReduce(two);
}

TEST(Cpp, ErrorsCarryTheLibrarysWords) {
  try {
    Communicator::all(0);
    FAIL() << "no ranks were made";
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), horingInvalidArgument);
    EXPECT_STREQ(error.what(), horingGetLastError(nullptr));
    EXPECT_NE(std::string(error.what()).find("ndev is 0"), std::string::npos) << error.what();
    EXPECT_EQ(std::strstr(error.what(), horingGetErrorString(horingInvalidArgument)), error.what());
  }
  Communicator none = Communicator::adopt(nullptr);
  EXPECT_EQ(failureOf([&] { none.size(); }), horingInvalidArgument);
  none.destroy();  // as in C
}

TEST(Cpp, AbortEndsACollectiveOfAnotherThread) {
  std::vector<Communicator> comms = Communicator::all(2);
  horingResult_t ended = horingSuccess;
  std::thread waits([&] {
    std::vector<float> data(1);
    ended = failureOf([&] { comms[0].allReduce(data); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  comms[0].abort();
  waits.join();
  EXPECT_NE(ended, horingSuccess);
  EXPECT_FALSE(comms[0]);
}

TEST(Cpp, CommunicatorsAreMadeWithSettingsAndOutOfOthers) {
  const horingUniqueId id = horing::makeUniqueId();
  onEveryRank(3, [&](int rank) {
    Communicator comm(id, 3, rank, {.name = "jobs"}, {.timeout_ms = 30'000, .reproducible = true});
    EXPECT_NE(comm.describe().find("jobs"), std::string::npos);
    EXPECT_NE(comm.describe().find("ho_ordered"), std::string::npos) << comm.describe();
    EXPECT_EQ(comm.block(horingRailMajor, rank), rank);
    EXPECT_EQ(comm.placeOf(rank).group, 0);
    EXPECT_EQ(comm.placeOf(rank).local_index, rank);
    std::vector<float> ordered(3);
    comm.allGatherOrdered(std::array{static_cast<float>(rank)}, ordered, horingRailMajor);
    EXPECT_EQ(ordered, (std::vector<float>{0, 1, 2}));
    comm.reduceScatterOrdered(ordered, std::span(ordered).subspan(static_cast<size_t>(rank), 1),
                              horingRailMajor);
    EXPECT_EQ(ordered[static_cast<size_t>(rank)], 3.0f * static_cast<float>(rank));

    const Communicator child = comm.split(rank == 0 ? HORING_SPLIT_NOCOLOR : 7, -rank, {.name = "part"});
    EXPECT_EQ(bool{child}, rank != 0);
    if (rank != 0) {
      EXPECT_EQ(child.size(), 2);
      EXPECT_EQ(child.rank(), 2 - rank);
      const Communicator rest = comm.shrink(std::array{0});
      EXPECT_EQ(rest.size(), 2);
      EXPECT_EQ(rest.rank(), rank - 1);
    }
    comm.finalize();
    EXPECT_EQ(failureOf([&] { comm.allReduce(ordered); }), horingInvalidUsage);
  });
}

TEST(Cpp, ACommunicatorThatIsBeingMadeMayGo) {
  const horingUniqueId id = horing::makeUniqueId();
  const Communicator alone(id, 2, 0, {.blocking = false});  // rank 1 does not come
  EXPECT_EQ(alone.asyncError(), horingInProgress);
}

TEST(Cpp, OneThreadSplitsForAllRanksIfItDoesNotBlock) {
  std::vector<Communicator> parents = Communicator::all(2), children, grandchildren;
  const auto expectMade = [](const std::vector<Communicator>& comms) {
    for (const Communicator& comm : comms) {
      while (comm.asyncError() == horingInProgress) std::this_thread::yield();
      EXPECT_EQ(comm.size(), 2);
    }
  };
  for (Communicator& parent : parents) children.push_back(parent.split(0, 0, {.blocking = false}));
  expectMade(children);
  for (Communicator& child : children) grandchildren.push_back(child.split(0, 0));
  expectMade(grandchildren);
}

TEST(Cpp, ListsTravelAndSizesAreChecked) {
  std::vector<Communicator> comms = Communicator::all(2);
  onEveryRank(2, [&](int rank) {
    Communicator& comm = comms[static_cast<size_t>(rank)];
    const std::vector<std::vector<float>> send = {{1, 2}, {}, {3, 4, 5, 6}};
    std::vector<std::vector<float>> same = send, half = {{0}, {}, {0, 0}};
    comm.allReduceList(same);
    EXPECT_EQ(same, (std::vector<std::vector<float>>{{2, 4}, {}, {6, 8, 10, 12}}));
    comm.reduceScatterList(send, half);
    EXPECT_EQ(half[2], rank == 0 ? (std::vector<float>{6, 8}) : (std::vector<float>{10, 12}));
    comm.allGatherList(half, std::vector<std::span<float>>(same.begin(), same.end()));
    EXPECT_EQ(same, (std::vector<std::vector<float>>{{2, 4}, {}, {6, 8, 10, 12}}));
    EXPECT_EQ(failureOf([&] { comm.allReduceList(send, half); }), horingInvalidArgument);
    half.pop_back();
    EXPECT_EQ(failureOf([&] { comm.reduceScatterList(send, half); }), horingInvalidArgument);
    const horing::PreMulSum weighted(comm, static_cast<float>(rank + 1));
    std::vector<float> one = {1};
    comm.allReduce(one, weighted.op());
    EXPECT_EQ(one[0], 3);
    const std::vector<float, horing::Allocator<float>> shared(100);
    EXPECT_TRUE(horing::Registration(comm, shared).isReadInPlace());
    EXPECT_FALSE(horing::Registration(comm, one).isReadInPlace());
  });
}

}  // namespace
