// Jobs over RDMA whose wires are pulled, and the resources that long jobs leave behind.
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>

#include "../../rdma_machine.h"
#include "node_ranks.h"

namespace horing::testing {
namespace {

// Element i of what `rank` brings to all-reduce number `round`.
uint32_t element(size_t i, int rank, int round) {
  return static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank * 77 + round * 1009);
}

// An all-reduce of `count` numbers with every result checked. Returns how long it took alone.
Clock::duration checkedAllReduce(horingComm_t comm, size_t count, int round) {
  int ranks = 0, rank = 0;
  EXPECT_HORING(horingCommCount(comm, &ranks));
  EXPECT_HORING(horingCommUserRank(comm, &rank));
  std::vector<uint32_t> in(count), out(count);
  for (size_t i = 0; i < count; ++i) in[i] = element(i, rank, round);
  const auto begun = Clock::now();
  EXPECT_HORING(horingAllReduce(in.data(), out.data(), count, horingUint32, horingSum, comm, nullptr));
  const auto took = Clock::now() - begun;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += element(i, r, round);
    wrong += out[i] != sum;
  }
  EXPECT_EQ(wrong, 0u) << "of " << count << " results on rank " << rank << ", round " << round;
  return took;
}

int64_t microseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// --- One wire pulled during an all-reduce of 64 MiB.
constexpr size_t kLargeCount = (size_t{64} << 20) / sizeof(uint32_t);
// A busy machine takes its part. Ranks that did not go over to the other wire would wait for 30 s and more.
constexpr int64_t kMayLoseUs = 10'000'000;

int repetitions() {
  const char* const asked = std::getenv("HORING_TESTS_RDMA_REPETITIONS");  // up to Board::kMaxIds
  return asked ? std::atoi(asked) : 10;
}

std::string describe(horingComm_t comm) {
  std::array<char, 4096> text{};
  EXPECT_HORING(horingCommDescribe(comm, text.data(), text.size()));
  return text.data();
}

void expectPeersByRdma(horingComm_t comm) {
  const std::string text = describe(comm);
  EXPECT_NE(text.find("by verbs"), std::string::npos) << text;
}

void reduceWhileWiresArePulled(Board* board, int rounds, int rank) {
  for (int round = 0; round < rounds; ++round) {
    const horingComm_t comm = meet(board, round, 2, rank);
    ASSERT_NE(comm, nullptr);
    if (round == 0) {  // how long it takes with both wires
      checkedAllReduce(comm, 1, round);
      const int64_t us = microseconds(checkedAllReduce(comm, kLargeCount, round));
      if (rank == 0) board->took_us.store(us);
    }
    checkedAllReduce(comm, 1, round);
    expectPeersByRdma(comm);
    board->arrived.fetch_add(1);
    const int64_t us = microseconds(checkedAllReduce(comm, kLargeCount, round));
    board->ended.fetch_add(1);
    EXPECT_LT(us - board->took_us.load(), kMayLoseUs) << "lost in round " << round << " on rank " << rank;
    EXPECT_HORING(horingCommDestroy(comm));
    if (rank == 0)
      std::printf("round %d: %.3f s, undisturbed %.3f s\n", round, us * 1e-6, board->took_us.load() * 1e-6);
    ASSERT_TRUE(waitFor(board->round, round + 1));
  }
}

TEST(RdmaJob, SurvivesAWirePulledDuringAnAllReduce) {
  HORING_NEEDS_RDMA_MACHINE();
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  const int rounds = repetitions();
  onNodes(
      {.deadline = std::chrono::seconds(60 + 6 * rounds)},
      [&](int rank) { reduceWhileWiresArePulled(board, rounds, rank); },
      [&] {
        int in_time = 0;
        for (int round = 0; round < rounds; ++round) {
          ASSERT_TRUE(waitFor(board->arrived, 2 * (round + 1))) << "round " << round;
          // At another moment in each round, in the first two thirds of what the whole took undisturbed.
          ::usleep(static_cast<useconds_t>(board->took_us.load() * (round + 1) * 2 / (rounds * 3)));
          in_time += board->ended.load() == 2 * round ? 1 : 0;
          EXPECT_TRUE(pullWire(round % 2));
          EXPECT_TRUE(waitFor(board->ended, 2 * (round + 1))) << "round " << round;
          EXPECT_TRUE(plugWire(round % 2));
          board->round.store(round + 1);
        }
        EXPECT_GE(2 * in_time, rounds)
            << "most wires were pulled when all was done";  // on a busy machine some are
      });
}

// Returns the result of this rank's call, with its text in `why`.
horingResult_t allReduceAndHear(horingComm_t comm, std::string& why) {
  const std::vector<uint32_t> in(kLargeCount, 1);
  std::vector<uint32_t> out(kLargeCount);
  const horingResult_t result =
      horingAllReduce(in.data(), out.data(), kLargeCount, horingUint32, horingSum, comm, nullptr);
  why = horingGetLastError(comm);
  return result;
}

TEST(RdmaJob, NamesRankAndDeviceWhenItsOnlyWireIsPulled) {
  HORING_NEEDS_RDMA_MACHINE();
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  const auto reduce = [&](int rank) {
    ::setenv("HORING_TESTS_IB_OUTAGE_MS", "1000", 1);
    const horingComm_t comm = meet(board, 0, 2, rank);
    ASSERT_NE(comm, nullptr);
    checkedAllReduce(comm, 1, 0);
    expectPeersByRdma(comm);
    board->arrived.fetch_add(1);
    std::string why;
    EXPECT_EQ(allReduceAndHear(comm, why), horingRemoteError) << why;
    EXPECT_NE(why.find(rank == 0 ? "rank 1" : "rank 0"), std::string::npos) << why;
    EXPECT_NE(why.find("rxe"), std::string::npos) << why;
    EXPECT_HORING(horingCommAbort(comm));
  };
  onNodes({.devices_a = "rxe0", .devices_b = "rxe1"}, reduce, [&] {
    ASSERT_TRUE(waitFor(board->arrived, 2));
    ::usleep(100'000);
    EXPECT_TRUE(pullWire(0));
  });
  EXPECT_TRUE(plugWire(0));
}

TEST(RdmaJob, OutlivesThatItsOnlyWireIsPulledForSeconds) {
  HORING_NEEDS_RDMA_MACHINE();
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  const auto reduce = [&](int rank) {
    const horingComm_t comm = meet(board, 0, 2, rank);
    ASSERT_NE(comm, nullptr);
    checkedAllReduce(comm, 1, 0);
    board->arrived.fetch_add(1);
    checkedAllReduce(comm, kLargeCount, 0);
    expectPeersByRdma(comm);
    EXPECT_HORING(horingCommDestroy(comm));
  };
  onNodes({.devices_a = "rxe0", .devices_b = "rxe1"}, reduce, [&] {
    ASSERT_TRUE(waitFor(board->arrived, 2));
    ::usleep(100'000);
    EXPECT_TRUE(pullWire(0));
    ::usleep(3'000'000);
    EXPECT_TRUE(plugWire(0));
  });
}

// --- Ranks that RDMA does not join.
// The part of the text about `rank`.
std::string lineOf(const std::string& text, int rank) {
  const size_t begin = text.find("rank " + std::to_string(rank) + ": ");
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(RdmaJob, ReachesAPeerWithoutRdmaBySockets) {
  HORING_NEEDS_RDMA_MACHINE();
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  onNodes({.ranks = 4, .transports = "shm,verbs,socket", .rank_without = 3}, [&](int rank) {
    const horingComm_t comm = meet(board, 0, 4, rank);
    ASSERT_NE(comm, nullptr);
    checkedAllReduce(comm, 7, 0);
    checkedAllReduce(comm, 100'000, 1);
    if (rank == 0) {
      const std::string text = describe(comm);
      EXPECT_NE(lineOf(text, 2).find("by verbs"), std::string::npos) << text;
      EXPECT_NE(lineOf(text, 3).find("by socket"), std::string::npos) << text;
    }
    EXPECT_HORING(horingCommDestroy(comm));
  });
}

// The error of each rank that gets no communicator, with RDMA required.
void expectRefusals(const Nodes& nodes, const std::array<std::vector<const char*>, 2>& words) {
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  onNodes(nodes, [&](int rank) {
    if (rank == 0) {
      EXPECT_HORING(horingGetUniqueId(&board->id[0]));
      board->ids.store(1);
    }
    ASSERT_TRUE(waitFor(board->ids, 1));
    horingComm_t comm = nullptr;
    horingResult_t result = horingCommInitRank(&comm, nodes.ranks, board->id[0], rank);
    int value = rank;
    if (result == horingSuccess)
      result = horingAllReduce(&value, &value, 1, horingInt, horingSum, comm, nullptr);
    const std::string why = horingGetLastError(comm);
    EXPECT_NE(result, horingSuccess) << "on rank " << rank;
    for (const char* const part : words[static_cast<size_t>(rank)])
      EXPECT_NE(why.find(part), std::string::npos) << part << " on rank " << rank << " in: " << why;
    if (comm) {
      EXPECT_HORING(horingCommAbort(comm));
    }
    board->arrived.fetch_add(1);
    EXPECT_TRUE(waitFor(board->arrived, nodes.ranks));  // the host of the rendezvous stays
  });
}

TEST(RdmaJob, IsRefusedWhereAPeerHasNoRdmaAndRdmaIsDemanded) {
  HORING_NEEDS_RDMA_MACHINE();
  expectRefusals({.rank_without = 1},
                 {{{"rank 1", "no RDMA device serves"}, {"rank 1 cannot use RDMA", "HORING_IB_HCA=nosuch"}}});
}

TEST(RdmaJob, IsRefusedWhereNothingJoinsThePorts) {
  HORING_NEEDS_RDMA_MACHINE();
  expectRefusals({.devices_a = "rxe0", .devices_b = "rxe3"},
                 {{{"rank 1", "HORING_TRANSPORTS", "rxe3 port 1 (RoCE v2, 10.99.1.2/24", "rxe0 port 1"},
                   {"rank 0", "HORING_TRANSPORTS", "rxe0 port 1 (RoCE v2, 10.99.0.1/24"}}});
}

// --- What 10,000 small and 100 large operations leave.
// The kernel's own counts of each device: protection domains, completion queues, queue pairs, memory regions.
std::string resources() {
  std::string text;
  FILE* const command = ::popen("rdma resource show", "r");
  std::array<char, 512> part{};
  while (command && std::fgets(part.data(), part.size(), command)) text += part.data();
  EXPECT_EQ(command ? ::pclose(command) : -1, 0);
  return text;
}

TEST(RdmaJob, LeavesNothingBehindAfterManyOperations) {
  HORING_NEEDS_RDMA_MACHINE();
  constexpr int kSmall = 10'000, kLarge = 100;
  constexpr size_t kLargeElements = (size_t{1} << 20) / sizeof(uint32_t);
  const SharedBoard shared;
  Board* const board = shared.get();
  ASSERT_NE(board, nullptr);
  const std::string before = resources();
  onNodes({}, [&](int rank) {
    const horingComm_t comm = meet(board, 0, 2, rank);
    ASSERT_NE(comm, nullptr);
    const auto run = [&](int small, int large) {
      for (int i = 0; i < small; ++i) checkedAllReduce(comm, 2, i);
      for (int i = 0; i < large; ++i) checkedAllReduce(comm, kLargeElements, i);
      board->arrived.fetch_add(1);
    };
    run(2, 2);  // once made, it stays
    ASSERT_TRUE(waitFor(board->arrived, 2));
    const std::string warm = rank == 0 ? resources() : "";
    board->ended.fetch_add(1);
    ASSERT_TRUE(waitFor(board->ended, 2));
    EXPECT_NE(warm, before) << "no RDMA device was used";
    run(kSmall, kLarge);
    ASSERT_TRUE(waitFor(board->arrived, 4));
    EXPECT_EQ(rank == 0 ? resources() : "", warm);
    board->ended.fetch_add(1);
    ASSERT_TRUE(waitFor(board->ended, 4));
    EXPECT_HORING(horingCommDestroy(comm));
  });
  EXPECT_EQ(resources(), before);
}

}  // namespace
}  // namespace horing::testing
