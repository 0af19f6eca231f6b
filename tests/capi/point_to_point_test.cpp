// Sends, receives and groups.
#include "ways.h"

namespace {

using PointToPoint = Collectives;

TEST_P(PointToPoint, NeighboursExchangeInAGroup) {
  onEveryRank(ranks(), [&](int rank) {
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{300'000}}) {
      const auto sent = numbers(count, rank);
      std::vector<int32_t> received(count, -1);
      ASSERT_HORING(horingGroupStart());
      ASSERT_HORING(horingSend(sent.data(), count, horingInt32, next, comm(rank), nullptr));
      ASSERT_HORING(horingRecv(received.data(), count, horingInt32, previous, comm(rank), nullptr));
      ASSERT_HORING(horingGroupEnd());
      ASSERT_EQ(received, numbers(count, previous));
    }
  });
}

TEST_P(PointToPoint, EveryPairExchangesBesideCollectives) {
  onEveryRank(ranks(), [&](int rank) {
    const auto n = static_cast<size_t>(ranks());
    std::vector<std::vector<int32_t>> sent, received(n, std::vector<int32_t>(5000));
    for (int peer = 0; peer < ranks(); ++peer) sent.push_back(numbers(5000, rank * 100 + peer));
    int64_t sum = rank;
    ASSERT_HORING(horingGroupStart());
    for (int peer = 0; peer < ranks(); ++peer) {
      const auto p = static_cast<size_t>(peer);
      ASSERT_HORING(horingRecv(received[p].data(), 5000, horingInt32, peer, comm(rank), nullptr));
      ASSERT_HORING(horingSend(sent[p].data(), 5000, horingInt32, peer, comm(rank), nullptr));
    }
    ASSERT_HORING(horingAllReduce(&sum, &sum, 1, horingInt64, horingSum, comm(rank), nullptr));
    ASSERT_HORING(horingGroupEnd());
    EXPECT_EQ(sum, ranks() * (ranks() - 1) / 2);
    for (int peer = 0; peer < ranks(); ++peer)
      ASSERT_EQ(received[static_cast<size_t>(peer)], numbers(5000, peer * 100 + rank));
  });
}

// Each rank forwards in the same group what it receives, as rings of programs for NCCL do.
TEST_P(PointToPoint, AGroupForwardsWhatItReceives) {
  onEveryRank(ranks(), [&](int rank) {
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    for (const size_t count : {size_t{3}, size_t{100'000}}) {
      std::vector<std::vector<int32_t>> parts(static_cast<size_t>(ranks()), std::vector<int32_t>(count, -1));
      const auto part = [&](int owner) {
        return parts[static_cast<size_t>((owner + ranks()) % ranks())].data();
      };
      parts[static_cast<size_t>(rank)] = numbers(count, rank);
      ASSERT_HORING(horingGroupStart());
      for (int step = 0; step + 1 < ranks(); ++step) {
        ASSERT_HORING(horingSend(part(rank - step), count, horingInt32, next, comm(rank), nullptr));
        ASSERT_HORING(horingRecv(part(rank - step - 1), count, horingInt32, previous, comm(rank), nullptr));
      }
      ASSERT_HORING(horingGroupEnd());
      for (int owner = 0; owner < ranks(); ++owner)
        ASSERT_EQ(parts[static_cast<size_t>(owner)], numbers(count, owner)) << "of rank " << owner;
    }
  });
}

TEST_P(PointToPoint, AChainNeedsNoGroup) {
  onEveryRank(ranks(), [&](int rank) {
    int32_t token = rank == 0 ? 42 : 0;
    if (rank > 0) {
      ASSERT_HORING(horingRecv(&token, 1, horingInt32, rank - 1, comm(rank), nullptr));
    }
    ++token;
    if (rank + 1 < ranks()) {
      ASSERT_HORING(horingSend(&token, 1, horingInt32, rank + 1, comm(rank), nullptr));
    }
    EXPECT_EQ(token, 43 + rank);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, PointToPoint, everyWay());
INSTANTIATE_TEST_SUITE_P(Rdma, PointToPoint, testing::Values(kVerbsWay));

TEST(Groups, OneThreadDrivesSeveralRanks) {
  constexpr int kRanks = 3;
  std::vector<horingComm_t> comms(kRanks);
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], kRanks, id, rank));
  ASSERT_HORING(horingGroupEnd());
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(100'000, 1.0f));
  for (int round = 0; round < 3; ++round) {
    ASSERT_HORING(horingGroupStart());
    for (size_t rank = 0; rank < kRanks; ++rank)
      ASSERT_HORING(horingAllReduce(data[rank].data(), data[rank].data(), data[rank].size(), horingFloat,
                                    horingSum, comms[rank], nullptr));
    ASSERT_HORING(horingGroupEnd());
  }
  for (const auto& each : data) EXPECT_EQ(each, std::vector<float>(100'000, 27.0f));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Groups, RefuseAllWhenOneCallIsWrong) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  int32_t from = 5, to = 0;
  EXPECT_EQ(horingGroupEnd(), horingInvalidUsage);
  ASSERT_HORING(horingGroupStart());
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], nullptr));
  EXPECT_EQ(horingSend(&from, 1, horingInt32, 7, comms[0], nullptr), horingInvalidArgument);
  EXPECT_HORING(horingGroupEnd());
  EXPECT_EQ(horingGroupEnd(), horingInvalidArgument);
  EXPECT_NE(std::string(horingGetLastError(nullptr)).find("peer is 7: expected 0 to 0"), std::string::npos)
      << horingGetLastError(nullptr);
  EXPECT_EQ(to, 0) << "nothing of it was launched";
  EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], nullptr));
  EXPECT_EQ(to, 5);
  EXPECT_EQ(horingSend(&from, 1, horingInt32, 0, comms[0], nullptr), horingInvalidUsage)
      << "to itself, alone";
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST(Groups, RefuseAllWhateverIsWrong) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  int32_t from = 5, to = 0;
  horingComm_t never = nullptr;
  const std::function<horingResult_t()> wrong[] = {
      [&] { return horingSend(&from, 1, horingNumTypes, 0, comms[0], nullptr); },
      [&] { return horingRecv(&from, SIZE_MAX, horingInt32, 0, comms[0], nullptr); },
      [&] { return horingAllGatherV(&from, 1, &to, nullptr, nullptr, horingInt32, comms[0], nullptr); },
      [&] { return horingCommInitRank(&never, 2, horingUniqueId{}, 5); },
      [&] { return horingBcast(&from, 1, horingInt32, 0, nullptr, nullptr); }};
  for (const auto& call : wrong) {
    ASSERT_HORING(horingGroupStart());
    EXPECT_EQ(call(), horingInvalidArgument);
    EXPECT_HORING(horingAllReduce(&from, &to, 1, horingInt32, horingSum, comms[0], nullptr));
    EXPECT_EQ(horingGroupEnd(), horingInvalidArgument);
    EXPECT_EQ(to, 0) << "nothing of it was launched";
  }
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST(Groups, NameSizesThatDiffer) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  onEveryRank(2, [&](int rank) {
    int32_t data[4] = {};
    if (rank == 0) {
      EXPECT_HORING(horingSend(data, 4, horingInt32, 1, comms[0], nullptr));
    } else {
      EXPECT_EQ(horingRecv(data, 3, horingInt32, 0, comms[1], nullptr), horingInvalidUsage);
      EXPECT_NE(
          std::string(horingGetLastError(comms[1])).find("to have 12 bytes, and rank 0 sent #0 of 16 bytes"),
          std::string::npos)
          << horingGetLastError(comms[1]);
    }
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Two ranks that wait for each other for ever: both get an error with the cause, long before the deadline.
void expectCircle(const std::function<horingResult_t(int, horingComm_t)>& call, const char* named) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_EQ(call(rank, comm), horingInvalidUsage);
    const std::string text = horingGetLastError(comm);
    EXPECT_NE(text.find("wait for each other in a circle"), std::string::npos) << text;
    EXPECT_NE(text.find(named), std::string::npos) << text;
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(Circles, OfMessagesAreNamedBeforeTheDeadline) {
  std::vector<float> large(8 << 20);
  float one = 0;
  std::thread receives([&] {
    expectCircle([&](int rank,
                     horingComm_t comm) { return horingRecv(&one, 1, horingFloat, 1 - rank, comm, nullptr); },
                 "rank 0 waits for a message from rank 1");
  });
  std::thread sends([&] {
    expectCircle(
        [&](int rank, horingComm_t comm) {
          return horingSend(large.data(), large.size(), horingFloat, 1 - rank, comm, nullptr);
        },
        "rank 0 waits for rank 1 to take a message");
  });
  expectCircle(
      [&](int rank, horingComm_t comm) {
        float in = 1, out = 0;
        return rank == 0 ? horingAllReduce(&in, &out, 1, horingFloat, horingSum, comm, nullptr)
                         : horingRecv(&in, 1, horingFloat, 0, comm, nullptr);
      },
      "rank 0 is in all_reduce #0, which waits for rank 1");
  receives.join();
  sends.join();
}

TEST(Circles, AReceiveFromARankThatDoesNothingNamesItAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  float data = 0;
  EXPECT_TRUE(refuses(horingRecv(&data, 1, horingFloat, 0, comms[1], nullptr), horingTimeout,
                      "rank 1 waits for a message from rank 0, which is in no call"));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

}  // namespace
