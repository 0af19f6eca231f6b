// Collectives whose blocks differ in size; some are empty; packed and with gaps.
#include <algorithm>

#include "ways.h"

namespace {

using UnevenCollectives = Collectives;

struct Blocks {
  std::vector<size_t> counts, offsets;
  size_t total = 0;
};

// Block sizes 0, `scale`, 0, 3 * scale ...; `gap` elements before each.
Blocks blocksOf(int ranks, size_t scale, size_t gap) {
  Blocks blocks;
  for (int rank = 0; rank < ranks; ++rank) {
    blocks.offsets.push_back(blocks.total + gap);
    blocks.counts.push_back(static_cast<size_t>(rank * 7 % 4) * scale);
    blocks.total = blocks.offsets.back() + blocks.counts.back();
  }
  return blocks;
}

constexpr size_t kScales[] = {1, 257, 40'000};

TEST_P(UnevenCollectives, AllGatherCollectsBlocks) {
  onEveryRank(ranks(), [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    for (const size_t scale : kScales)
      for (const size_t gap : {size_t{0}, size_t{3}}) {
        const Blocks blocks = blocksOf(ranks(), scale, gap);
        std::vector<float> input(blocks.counts[me]), output(blocks.total, -1.0f);
        for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
        ASSERT_HORING(horingAllGatherV(input.data(), input.size(), output.data(), blocks.counts.data(),
                                       gap ? blocks.offsets.data() : nullptr, horingFloat, comm(rank),
                                       nullptr));
        for (size_t r = 0; r < blocks.counts.size(); ++r) {
          for (size_t i = 0; i < blocks.counts[r]; ++i)
            ASSERT_EQ(output[blocks.offsets[r] + i], element(static_cast<int>(r), i)) << "block " << r;
          for (size_t i = 1; i <= gap; ++i)
            ASSERT_EQ(output[blocks.offsets[r] - i], -1.0f) << "a gap was written";
        }
      }
  });
}

// A leader forwards data as it arrives: part of a long block after a short one, before all of it is there.
TEST(UnevenAllGather, OverLeadersSendsNothingBeforeItHasCome) {
  constexpr int kRanks = 8;
  constexpr size_t kLong = 100'000;  // more slices than a window
  const Setting algorithm("HORING_ALGO", "ho_leaders");
  const auto comms = makeGroups({"A", "A", "B", "B", "C", "C", "D", "D"});
  for (const int long_ones : {0, 1}) {
    std::vector<size_t> counts(kRanks);
    for (int rank = 0; rank < kRanks; ++rank)
      counts[static_cast<size_t>(rank)] = rank % 2 == long_ones ? kLong : 1;
    onEveryRank(kRanks, [&](int rank) {
      const auto me = static_cast<size_t>(rank);
      std::vector<float> input(counts[me]), output(kRanks / 2 * (kLong + 1));
      for (int round = 1; round <= 10; ++round) {
        std::fill(input.begin(), input.end(), static_cast<float>(100 * rank + round));
        ASSERT_HORING(horingAllGatherV(input.data(), input.size(), output.data(), counts.data(), nullptr,
                                       horingFloat, comms[me], nullptr));
        size_t at = 0;
        for (int other = 0; other < kRanks; ++other)
          for (size_t end = at + counts[static_cast<size_t>(other)]; at < end; ++at)
            ASSERT_EQ(output[at], static_cast<float>(100 * other + round))
                << "block " << other << ", round " << round;
      }
    });
  }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST_P(UnevenCollectives, ReduceScatterGivesEachRankItsBlock) {
  onEveryRank(ranks(), [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    for (const size_t scale : kScales) {
      const Blocks blocks = blocksOf(ranks(), scale, 2);
      std::vector<float> input(blocks.total), output(blocks.counts[me], -1.0f);
      for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
      ASSERT_HORING(horingReduceScatterV(input.data(), blocks.counts.data(), blocks.offsets.data(),
                                         output.data(), horingFloat, horingSum, comm(rank), nullptr));
      for (size_t i = 0; i < output.size(); ++i) {
        float expected = 0;
        for (int peer = 0; peer < ranks(); ++peer) expected += element(peer, blocks.offsets[me] + i);
        ASSERT_EQ(output[i], expected) << "element " << i;
      }
    }
  });
}

TEST_P(UnevenCollectives, GatherAndScatterUndoEachOther) {
  onEveryRank(ranks(), [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    for (const size_t scale : kScales)
      for (int root = 0; root < ranks(); ++root) {
        const Blocks blocks = blocksOf(ranks(), scale, 1);
        const bool is_root = rank == root;
        std::vector<float> own(blocks.counts[me]), all(is_root ? blocks.total : 0, -1.0f),
            back(own.size(), -1.0f);
        for (size_t i = 0; i < own.size(); ++i) own[i] = element(rank, i);
        ASSERT_HORING(
            horingGatherV(own.data(), own.size(), all.data(), is_root ? blocks.counts.data() : nullptr,
                          is_root ? blocks.offsets.data() : nullptr, horingFloat, root, comm(rank), nullptr));
        for (size_t r = 0; is_root && r < blocks.counts.size(); ++r)
          for (size_t i = 0; i < blocks.counts[r]; ++i)
            ASSERT_EQ(all[blocks.offsets[r] + i], element(static_cast<int>(r), i)) << "block " << r;
        ASSERT_HORING(horingScatterV(all.data(), is_root ? blocks.counts.data() : nullptr,
                                     is_root ? blocks.offsets.data() : nullptr, back.data(), back.size(),
                                     horingFloat, root, comm(rank), nullptr));
        ASSERT_EQ(back, own);
      }
  });
}

TEST_P(UnevenCollectives, AllToAllExchangesWhatPairsAgreedOn) {
  const auto sizeOf = [](int from, int to, size_t scale) {
    return static_cast<size_t>((from * 5 + to * 3) % 4) * scale;
  };
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t scale : kScales) {
      std::vector<size_t> send_counts, receive_counts;
      size_t send_total = 0, receive_total = 0;
      for (int peer = 0; peer < ranks(); ++peer) {
        send_counts.push_back(sizeOf(rank, peer, scale));
        receive_counts.push_back(sizeOf(peer, rank, scale));
        send_total += send_counts.back();
        receive_total += receive_counts.back();
      }
      std::vector<float> input, output(receive_total, -1.0f);
      for (int peer = 0; peer < ranks(); ++peer)
        for (size_t i = 0; i < send_counts[static_cast<size_t>(peer)]; ++i)
          input.push_back(element(rank * 16 + peer, i));
      ASSERT_EQ(input.size(), send_total);
      ASSERT_HORING(horingAlltoAllV(input.data(), send_counts.data(), nullptr, output.data(),
                                    receive_counts.data(), nullptr, horingFloat, comm(rank), nullptr));
      size_t at = 0;
      for (int peer = 0; peer < ranks(); ++peer)
        for (size_t i = 0; i < receive_counts[static_cast<size_t>(peer)]; ++i)
          ASSERT_EQ(output[at++], element(peer * 16 + rank, i)) << "from rank " << peer << ", element " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, UnevenCollectives, everyWay());

TEST(UnevenArguments, OfAnEmptyBlockMayPointAnywhere) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  const size_t counts[2] = {0, 4}, offsets[2] = {4, 8};
  onEveryRank(2, [&](int rank) {
    float mine[4] = {1, 2, 3, 4}, all[12] = {};
    const float* const own = rank == 0 ? all + 10 : mine;
    EXPECT_HORING(horingAllGatherV(own, counts[rank], all, counts, offsets, horingFloat,
                                   comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(all[11], 4.0f);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(UnevenArguments, ThatDifferBetweenRanksAreNamedOnAll) {
  const size_t others[2] = {
      0, 1 << 20};  // an empty block, which no message betrays; one that chooses another algorithm
  for (const size_t other : others)
    for (const bool reduces : {false, true}) {
      const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitAll);
      onEveryRank(3, [&](int rank) {
        const horingComm_t comm = comms[static_cast<size_t>(rank)];
        const size_t counts[3] = {8, rank == 0 ? other : 8, 8};
        std::vector<float> from(other + 24, 1.0f), to(other + 24);
        EXPECT_EQ(reduces ? horingReduceScatterV(from.data(), counts, nullptr, to.data(), horingFloat,
                                                 horingSum, comm, nullptr)
                          : horingAllGatherV(from.data(), counts[rank], to.data(), counts, nullptr,
                                             horingFloat, comm, nullptr),
                  horingInvalidUsage);
        EXPECT_NE(std::string(horingGetLastError(comm)).find("rank 0 called"), std::string::npos)
            << horingGetLastError(comm);
      });
      for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
    }
}

enum class Pairwise { kAllToAll, kGather, kScatter };

// A block from rank 0 to rank 1 (of a gather: from 1 to 0) that one of them considers empty.
void checkEmptyOnOneSide(Pairwise collective, int empty_on) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    float from[8] = {}, to[8] = {};
    const size_t size = rank == empty_on ? 0 : 4, own = rank == 1 ? size : 0;
    const size_t sends[2] = {0, rank == 0 ? size : 0}, receives[2] = {own, 0}, blocks[2] = {0, size};
    const horingResult_t result =
        collective == Pairwise::kAllToAll
            ? horingAlltoAllV(from, sends, nullptr, to, receives, nullptr, horingFloat, comm, nullptr)
        : collective == Pairwise::kGather
            ? horingGatherV(from, own, to, blocks, nullptr, horingFloat, 0, comm, nullptr)
            : horingScatterV(from, blocks, nullptr, to, own, horingFloat, 0, comm, nullptr);
    // The receiver sees it; the sender may be done before.
    if (rank != (collective == Pairwise::kGather ? 0 : 1)) return;
    EXPECT_EQ(result, horingInvalidUsage);
    EXPECT_NE(std::string(horingGetLastError(comm)).find("a message of another operation"), std::string::npos)
        << horingGetLastError(comm);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(UnevenArguments, EmptyOnOneSideOnlyAreNoticedAtOnce) {
  onEveryRank(6, [](int number) { checkEmptyOnOneSide(static_cast<Pairwise>(number / 2), number % 2); });
}

// Ranks with many bytes and with few take the same algorithm, though large all-to-alls between groups have one of their own.
TEST(UnevenAllToAll, MayBeLargeOnOneRankAndSmallOnOthers) {
  constexpr int kRanks = 4;
  constexpr size_t kSmall = 3, kLarge = 100'000;
  const auto comms = makeGroups({"A", "A", "B", "B"});
  const auto size_from = [](size_t rank) { return rank == 1 ? kLarge : kSmall; };
  onEveryRank(kRanks, [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    const std::vector<size_t> sends(kRanks, size_from(me));
    std::vector<size_t> receives;
    for (size_t from = 0; from < kRanks; ++from) receives.push_back(size_from(from));
    const std::vector<float> input(kRanks * size_from(me), element(rank, 0));
    std::vector<float> output(kLarge + 3 * kSmall, -1.0f);
    ASSERT_HORING(horingAlltoAllV(input.data(), sends.data(), nullptr, output.data(), receives.data(),
                                  nullptr, horingFloat, comms[me], nullptr));
    size_t at = 0;
    for (int from = 0; from < kRanks; ++from)
      for (size_t i = 0; i < receives[static_cast<size_t>(from)]; ++i)
        ASSERT_EQ(output[at++], element(from, 0)) << "from rank " << from;
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// As in programs that compute the place of each block and then find it empty.
TEST(UnevenArguments, MayPutEmptyBlocksAnywhere) {
  constexpr int kRanks = 3;
  const std::vector<horingComm_t> comms = makeCommunicators(kRanks, Meeting::kInitAll);
  const size_t counts[] = {2, 0, 3}, displs[] = {0, SIZE_MAX, 2};
  onEveryRank(kRanks, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    const size_t own = counts[rank];
    const std::vector<float> mine(own, static_cast<float>(rank + 1));
    const std::vector<float> expected = {1, 1, 3, 3, 3};
    std::vector<float> all(5, -1.0f);
    EXPECT_HORING(horingAllGatherV(mine.data(), own, all.data(), counts, displs, horingFloat, comm, nullptr));
    EXPECT_EQ(all, expected);
    std::vector<float> part(own, -1.0f);
    EXPECT_HORING(
        horingReduceScatterV(all.data(), counts, displs, part.data(), horingFloat, horingMax, comm, nullptr));
    EXPECT_EQ(part, mine);
    std::fill(part.begin(), part.end(), -1.0f);
    EXPECT_HORING(
        horingScatterV(all.data(), counts, displs, part.data(), own, horingFloat, 0, comm, nullptr));
    EXPECT_EQ(part, mine);
    std::fill(all.begin(), all.end(), -1.0f);
    EXPECT_HORING(horingGatherV(mine.data(), own, all.data(), counts, displs, horingFloat, 0, comm, nullptr));
    if (rank == 0) {
      EXPECT_EQ(all, expected);
    }
    const size_t none[] = {0, 0, 0}, anywhere[] = {SIZE_MAX, 7, SIZE_MAX / 2};
    EXPECT_HORING(
        horingAlltoAllV(mine.data(), none, anywhere, all.data(), none, anywhere, horingFloat, comm, nullptr));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(UnevenArguments, AreNamed) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  float data[4] = {};
  const size_t two = 2, huge = SIZE_MAX / 2;
  EXPECT_EQ(horingAllGatherV(data, 2, data + 2, nullptr, nullptr, horingFloat, comms[0], nullptr),
            horingInvalidArgument);
  EXPECT_NE(std::string(horingGetLastError(comms[0])).find("recvcounts is NULL"), std::string::npos);
  EXPECT_EQ(horingAllGatherV(data, 1, data + 2, &two, nullptr, horingFloat, comms[0], nullptr),
            horingInvalidArgument);
  EXPECT_NE(std::string(horingGetLastError(comms[0])).find("its own block has 2 elements"), std::string::npos)
      << horingGetLastError(comms[0]);
  EXPECT_EQ(horingAllGatherV(data, huge, data + 2, &huge, &huge, horingFloat, comms[0], nullptr),
            horingInvalidArgument);
  EXPECT_NE(std::string(horingGetLastError(comms[0])).find("does not fit into memory"), std::string::npos);
  EXPECT_HORING(horingAllGatherV(data, 2, data, &two, nullptr, horingFloat, comms[0], nullptr));
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

}  // namespace
