// Lists of collectives: each entry gets what its own call would give it.
#include <algorithm>

#include "ways.h"

namespace {

using ListCollectives = Collectives;

// More than one buffer full of small ones, between large ones that travel alone, and empty ones.
std::vector<size_t> countsFor(int ranks) {
  std::vector<size_t> counts = {0, 1, 65'537, 3, 40'000, 0, 255};
  const size_t small = 60'000 / static_cast<size_t>(ranks);
  for (int i = 0; i < 20; ++i) counts.push_back(small - static_cast<size_t>(i));
  return counts;
}

// One buffer for each entry, as large as `blocks` times its count; filled so that no two entries are alike.
struct Buffers {
  Buffers(const std::vector<size_t>& counts, size_t blocks, int rank) {
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<float>& one = data.emplace_back(counts[i] * blocks);
      for (size_t e = 0; e < one.size(); ++e) one[e] = value(rank, i, e);
    }
  }
  static float value(int rank, size_t entry, size_t e) { return element(rank, e + 13 * entry); }
  std::vector<void*> pointers(const std::vector<size_t>& offsets = {}) {
    std::vector<void*> list;
    for (size_t i = 0; i < data.size(); ++i)
      list.push_back(data[i].data() + (offsets.empty() ? 0 : offsets[i]));
    return list;
  }
  std::vector<std::vector<float>> data;
};

std::vector<size_t> timesRank(std::vector<size_t> counts, int rank) {
  for (size_t& count : counts) count *= static_cast<size_t>(rank);
  return counts;
}

float sumAt(int ranks, size_t entry, size_t e) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += Buffers::value(rank, entry, e);
  return sum;
}

TEST_P(ListCollectives, AllReduceEachEntry) {
  const std::vector<size_t> counts = countsFor(ranks());
  onEveryRank(ranks(), [&](int rank) {
    for (const bool in_place : {false, true}) {
      Buffers in(counts, 1, rank), out(counts, 1, 99);
      const std::vector<void*> sends = in.pointers(), recvs = in_place ? sends : out.pointers();
      ASSERT_HORING(horingAllReduceList(sends.data(), recvs.data(), counts.data(), counts.size(), horingFloat,
                                        horingSum, comm(rank), nullptr));
      for (size_t i = 0; i < counts.size(); ++i)
        ASSERT_TRUE(holds((in_place ? in : out).data[i].data(), counts[i],
                          [&](size_t e) { return sumAt(ranks(), i, e); }))
            << "entry " << i;
    }
  });
}

TEST_P(ListCollectives, ReduceScatterEachEntry) {
  const std::vector<size_t> counts = countsFor(ranks());
  onEveryRank(ranks(), [&](int rank) {
    for (const bool in_place : {false, true}) {
      Buffers in(counts, static_cast<size_t>(ranks()), rank), out(counts, 1, 99);
      const std::vector<void*> sends = in.pointers(),
                               recvs = in_place ? in.pointers(timesRank(counts, rank)) : out.pointers();
      ASSERT_HORING(horingReduceScatterList(sends.data(), recvs.data(), counts.data(), counts.size(),
                                            horingFloat, horingSum, comm(rank), nullptr));
      for (size_t i = 0; i < counts.size(); ++i)
        ASSERT_TRUE(
            holds(static_cast<float*>(recvs[i]), counts[i],
                  [&](size_t e) { return sumAt(ranks(), i, static_cast<size_t>(rank) * counts[i] + e); }))
            << "entry " << i;
    }
  });
}

TEST_P(ListCollectives, AllGatherEachEntry) {
  const std::vector<size_t> counts = countsFor(ranks());
  onEveryRank(ranks(), [&](int rank) {
    for (const bool in_place : {false, true}) {
      Buffers in(counts, 1, rank), out(counts, static_cast<size_t>(ranks()), 99);
      const std::vector<size_t> own = timesRank(counts, rank);
      const std::vector<void*> recvs = out.pointers(), sends = in_place ? out.pointers(own) : in.pointers();
      for (size_t i = 0; in_place && i < counts.size(); ++i)
        std::copy(in.data[i].begin(), in.data[i].end(), static_cast<float*>(sends[i]));
      ASSERT_HORING(horingAllGatherList(sends.data(), recvs.data(), counts.data(), counts.size(), horingFloat,
                                        comm(rank), nullptr));
      for (size_t i = 0; i < counts.size(); ++i)
        for (int from = 0; from < ranks(); ++from)
          ASSERT_TRUE(holds(out.data[i].data() + static_cast<size_t>(from) * counts[i], counts[i],
                            [&](size_t e) { return Buffers::value(from, i, e); }))
              << "entry " << i << ", rank " << from;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ListCollectives, everyWay());
INSTANTIATE_TEST_SUITE_P(Rdma, ListCollectives, testing::Values(kVerbsWay));

// One call of the communicator for all of them: the next one, which differs, is number 1.
TEST(ListCollectives, SmallEntriesTravelTogether) {
  std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  const size_t counts[] = {5, 0, 7};
  // Ranks whose lists differ in a way that their sum does not show.
  const size_t other_counts[] = {7, 0, 5};
  onEveryRank(2, [&](int rank) {
    float data[3][8] = {};
    void* const buffers[] = {data[0], data[1], data[2]};
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_HORING(horingAllReduceList(buffers, buffers, counts, 3, horingFloat, horingSum, comm, nullptr));
    EXPECT_HORING(horingAllReduceList(buffers, buffers, counts, 0, horingFloat, horingSum, comm, nullptr));
    EXPECT_TRUE(refuses(horingAllReduceList(buffers, buffers, rank == 0 ? counts : other_counts, 3,
                                            horingFloat, horingSum, comm, nullptr),
                        horingInvalidUsage, "ranks disagree about call #1: "));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(ListCollectives, OfNothingButEmptyEntriesMustBeTheSameOnAllRanks) {
  std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  const size_t none[] = {0, 0}, some[] = {0, 3};
  onEveryRank(2, [&](int rank) {
    float data[2][4] = {};
    void* const buffers[] = {data[0], data[1]};
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_HORING(horingAllReduceList(buffers, buffers, none, 2, horingFloat, horingSum, comm, nullptr));
    EXPECT_HORING(horingAllGatherList(buffers, buffers, none, 2, horingFloat, comm, nullptr));
    // A rank with an empty list is done; both get the error that their lists differ.
    const horingResult_t called = horingAllReduceList(buffers, buffers, rank == 0 ? none : some, 2,
                                                      horingFloat, horingSum, comm, nullptr);
    horingResult_t heard = called;
    while (heard == horingSuccess) EXPECT_HORING(horingCommGetAsyncError(comm, &heard));
    EXPECT_EQ(heard, horingInvalidUsage);
    EXPECT_NE(std::string(horingGetLastError(comm)).find("ranks disagree about call #2: "), std::string::npos)
        << horingGetLastError(comm);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(ListCollectives, ABadEntryIsNamedAndNothingIsSent) {
  std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  float data[4] = {1, 2, 3, 4};
  void* buffers[] = {data, data + 1, nullptr};
  const size_t counts[] = {1, 1, 1};
  EXPECT_TRUE(
      refuses(horingAllReduceList(buffers, buffers, counts, 3, horingFloat, horingSum, comms[0], nullptr),
              horingInvalidArgument, "entry 2: sendbuff is NULL"));
  EXPECT_TRUE(refuses(horingAllGatherList(buffers, buffers, nullptr, 3, horingFloat, comms[0], nullptr),
                      horingInvalidArgument, "a list of 3 entries is NULL"));
  EXPECT_HORING(
      horingReduceScatterList(buffers, buffers, counts, 2, horingFloat, horingSum, comms[0], nullptr));
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

// On a stream the arrays may go away at once, and a group holds lists as any other call.
TEST(ListCollectives, GoOnStreamsAndIntoGroups) {
  std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  std::vector<std::vector<float>> data(4, std::vector<float>(100, 1.0f));
  horingStream_t stream;
  ASSERT_HORING(horingStreamCreate(&stream));
  ASSERT_HORING(horingGroupStart());
  for (size_t rank = 0; rank < 2; ++rank) {
    void* const buffers[] = {data[2 * rank].data(), data[2 * rank + 1].data()};
    const size_t counts[] = {100, 50};
    ASSERT_HORING(horingAllReduceList(buffers, buffers, counts, 2, horingFloat, horingSum, comms[rank],
                                      rank == 0 ? stream : nullptr));
  }
  ASSERT_HORING(horingGroupEnd());
  ASSERT_HORING(horingStreamSynchronize(stream));
  for (size_t i = 0; i < 4; ++i)
    for (size_t e = 0; e < 100; ++e) ASSERT_EQ(data[i][e], e < (i % 2 == 0 ? 100u : 50u) ? 2.0f : 1.0f);
  ASSERT_HORING(horingStreamDestroy(stream));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
