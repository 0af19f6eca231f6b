// Messages with tags: which receive takes which message, and how many are in flight at the same time.
#include <array>
#include <barrier>

#include "ways.h"

namespace {

using TaggedMessages = Collectives;

class OwnStream {
 public:
  OwnStream() { EXPECT_HORING(horingStreamCreate(&stream_)); }
  ~OwnStream() { EXPECT_HORING(horingStreamDestroy(stream_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator horingStream_t() const { return stream_; }

 private:
  horingStream_t stream_ = nullptr;
};

constexpr std::array<size_t, 5> kCounts{0, 1, 1021, 16384, 100'003};

TEST_P(TaggedMessages, MeetByTagWhateverTheOrder) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    if (ranks() == 1) return;
    std::vector<std::vector<int32_t>> sent;
    OwnStream streams[kCounts.size()];
    for (size_t i = 0; i < kCounts.size(); ++i) {
      sent.push_back(numbers(kCounts[i], static_cast<int32_t>(10 * i) + rank));
      ASSERT_HORING(horingSendTagged(sent[i].data(), kCounts[i], horingInt32, next, i, comm, streams[i]));
    }
    for (size_t i = kCounts.size(); i-- > 0;) {
      std::vector<int32_t> received(kCounts[i], -1);
      int source = -1;
      ASSERT_HORING(
          horingRecvTagged(received.data(), kCounts[i], horingInt32, previous, i, &source, comm, nullptr));
      ASSERT_EQ(received, numbers(kCounts[i], static_cast<int32_t>(10 * i) + previous)) << i;
      EXPECT_EQ(source, previous);
    }
    for (const OwnStream& stream : streams) ASSERT_HORING(horingStreamSynchronize(stream));
    int64_t one = 1;
    ASSERT_HORING(horingAllReduce(&one, &one, 1, horingInt64, horingSum, comm, nullptr));
    EXPECT_EQ(one, ranks()) << "collectives go on behind them";
  });
}

TEST_P(TaggedMessages, ComeFromAnyRank) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    constexpr size_t kCount = 5000;
    constexpr uint64_t kTag = ~uint64_t{0};
    if (rank > 0) {
      const auto sent = numbers(kCount, rank);
      ASSERT_HORING(horingSendTagged(sent.data(), kCount, horingInt32, 0, kTag, comm, nullptr));
      return;
    }
    std::vector<bool> seen(static_cast<size_t>(ranks()));
    for (int i = 1; i < ranks(); ++i) {
      std::vector<int32_t> received(kCount, -1);
      int source = -1;
      ASSERT_HORING(horingRecvTagged(received.data(), kCount, horingInt32, HORING_ANY_RANK, kTag, &source,
                                     comm, nullptr));
      ASSERT_TRUE(source > 0 && source < ranks()) << source;
      EXPECT_FALSE(seen[static_cast<size_t>(source)]) << source;
      seen[static_cast<size_t>(source)] = true;
      EXPECT_EQ(received, numbers(kCount, source));
    }
  });
}

// Each rank begins to send before it receives, more than fits on the way.
TEST_P(TaggedMessages, CrossOnTheWay) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    if (ranks() == 1) return;
    constexpr size_t kCount = 3'000'000;
    const auto sent = numbers(kCount, rank);
    std::vector<int32_t> received(kCount, -1);
    OwnStream sending;
    ASSERT_HORING(horingSendTagged(sent.data(), kCount, horingInt32, next, 7, comm, sending));
    ASSERT_HORING(
        horingRecvTagged(received.data(), kCount, horingInt32, previous, 7, nullptr, comm, nullptr));
    ASSERT_HORING(horingStreamSynchronize(sending));
    EXPECT_EQ(received, numbers(kCount, previous));
  });
}

// The receive that was issued first ends last.
TEST_P(TaggedMessages, EndEachByItself) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    if (rank > 1 || ranks() == 1) return;
    const int peer = 1 - rank;
    int32_t late = -1, early = -1;
    const int32_t mine = 100 + rank;
    OwnStream waiting;
    ASSERT_HORING(horingRecvTagged(&late, 1, horingInt32, peer, 9, nullptr, comm, waiting));
    for (uint64_t round = 0; round < 20; ++round) {
      const int32_t number = static_cast<int32_t>(round) * 2 + rank;
      if (rank == 0) {
        ASSERT_HORING(horingSendTagged(&number, 1, horingInt32, peer, 1, comm, nullptr));
        ASSERT_HORING(horingRecvTagged(&early, 1, horingInt32, peer, 1, nullptr, comm, nullptr));
      } else {
        ASSERT_HORING(horingRecvTagged(&early, 1, horingInt32, peer, 1, nullptr, comm, nullptr));
        ASSERT_HORING(horingSendTagged(&number, 1, horingInt32, peer, 1, comm, nullptr));
      }
      EXPECT_EQ(early, static_cast<int32_t>(round) * 2 + peer);
      if (round < 19) {
        ASSERT_EQ(horingStreamQuery(waiting), horingInProgress) << "round " << round;
      }
    }
    ASSERT_HORING(horingSendTagged(&mine, 1, horingInt32, peer, 9, comm, nullptr));
    ASSERT_HORING(horingStreamSynchronize(waiting));
    EXPECT_EQ(late, 100 + peer);
  });
}

TEST_P(TaggedMessages, OfAGroupAreOneCall) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const auto n = static_cast<size_t>(ranks());
    std::vector<std::vector<int32_t>> sent, received(n, std::vector<int32_t>(3000));
    for (int peer = 0; peer < ranks(); ++peer) sent.push_back(numbers(3000, rank * 100 + peer));
    ASSERT_HORING(horingGroupStart());
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank) continue;
      const auto p = static_cast<size_t>(peer);
      ASSERT_HORING(horingSendTagged(sent[p].data(), 3000, horingInt32, peer, 3, comm, nullptr));
      ASSERT_HORING(horingRecvTagged(received[p].data(), 3000, horingInt32, peer, 3, nullptr, comm, nullptr));
    }
    ASSERT_HORING(horingGroupEnd());
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank) continue;
      ASSERT_EQ(received[static_cast<size_t>(peer)], numbers(3000, peer * 100 + rank));
    }
  });
}

// In whatever order a rank has them in its group.
TEST_P(TaggedMessages, GoBesideThoseWithoutTagsInAGroup) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    if (ranks() == 1) return;
    const auto plain = numbers(50'000, rank), tagged = numbers(40'000, 100 + rank);
    std::vector<int32_t> got_plain(plain.size()), got_tagged(tagged.size());
    const auto exchangePlain = [&] {
      ASSERT_HORING(horingSend(plain.data(), plain.size(), horingInt32, next, comm, nullptr));
      ASSERT_HORING(horingRecv(got_plain.data(), got_plain.size(), horingInt32, previous, comm, nullptr));
    };
    ASSERT_HORING(horingGroupStart());
    if (rank % 2 == 0) exchangePlain();
    ASSERT_HORING(horingSendTagged(tagged.data(), tagged.size(), horingInt32, next, 3, comm, nullptr));
    ASSERT_HORING(horingRecvTagged(got_tagged.data(), got_tagged.size(), horingInt32, previous, 3, nullptr,
                                   comm, nullptr));
    if (rank % 2 == 1) exchangePlain();
    ASSERT_HORING(horingGroupEnd());
    EXPECT_EQ(got_plain, numbers(plain.size(), previous));
    EXPECT_EQ(got_tagged, numbers(tagged.size(), 100 + previous));
  });
}

// A receive that nothing answers yet holds up no collective.
TEST_P(TaggedMessages, LetCollectivesGoOnBesideThem) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    if (ranks() == 1) return;
    OwnStream waiting, working;
    int32_t received = -1;
    ASSERT_HORING(horingRecvTagged(&received, 1, horingInt32, previous, 1, nullptr, comm, waiting));
    for (int round = 0; round < 10; ++round) {
      std::vector<int64_t> ones(1000, 1), more(50'000, 1);
      ASSERT_HORING(
          horingAllReduce(more.data(), more.data(), more.size(), horingInt64, horingSum, comm, working));
      ASSERT_HORING(
          horingAllReduce(ones.data(), ones.data(), ones.size(), horingInt64, horingSum, comm, nullptr));
      ASSERT_HORING(horingStreamSynchronize(working));
      ASSERT_EQ(ones, std::vector<int64_t>(1000, ranks()));
      ASSERT_EQ(more, std::vector<int64_t>(50'000, ranks()));
    }
    // All ranks are through with the collectives, and none has sent.
    ASSERT_EQ(horingStreamQuery(waiting), horingInProgress);
    int64_t one = 1;
    ASSERT_HORING(horingAllReduce(&one, &one, 1, horingInt64, horingSum, comm, nullptr));
    ASSERT_HORING(horingSendTagged(&rank, 1, horingInt32, next, 1, comm, nullptr));
    ASSERT_HORING(horingStreamSynchronize(waiting));
    EXPECT_EQ(received, previous);
  });
}

// Rank 0 sends while it is in a collective that the others join after receiving.
TEST_P(TaggedMessages, OvertakeCollectives) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    OwnStream working;
    std::vector<OwnStream> sending(static_cast<size_t>(ranks()));
    int64_t sum = 1;
    const std::vector<int32_t> sent = numbers(200'000, 5);
    if (rank == 0) {
      ASSERT_HORING(horingAllReduce(&sum, &sum, 1, horingInt64, horingSum, comm, working));
      for (int peer = 1; peer < ranks(); ++peer)
        ASSERT_HORING(horingSendTagged(sent.data(), sent.size(), horingInt32, peer, 2, comm,
                                       sending[static_cast<size_t>(peer)]));
      for (const OwnStream& each : sending) ASSERT_HORING(horingStreamSynchronize(each));
    } else {
      std::vector<int32_t> received(sent.size());
      ASSERT_HORING(horingRecvTagged(received.data(), received.size(), horingInt32, HORING_ANY_RANK, 2,
                                     nullptr, comm, nullptr));
      EXPECT_EQ(received, sent);
      ASSERT_HORING(horingAllReduce(&sum, &sum, 1, horingInt64, horingSum, comm, working));
    }
    ASSERT_HORING(horingStreamSynchronize(working));
    EXPECT_EQ(sum, ranks());
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, TaggedMessages, everyWay());
INSTANTIATE_TEST_SUITE_P(Rdma, TaggedMessages, testing::Values(kVerbsWay));

class TwoRanks : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeCommunicators(2, Meeting::kInitRank); }
  void TearDown() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

  std::vector<horingComm_t> comms_;
};
using TaggedMessageErrors = TwoRanks;

TEST_F(TaggedMessageErrors, NameWhatIsWrongWithACall) {
  int32_t value = 0;
  EXPECT_TRUE(refuses(horingSendTagged(&value, 1, horingInt32, 2, 0, comm(0), nullptr), horingInvalidArgument,
                      "peer is 2"));
  EXPECT_TRUE(refuses(horingSendTagged(&value, 1, horingInt32, HORING_ANY_RANK, 0, comm(0), nullptr),
                      horingInvalidArgument, "peer is -1"));
  EXPECT_TRUE(refuses(horingRecvTagged(&value, 1, horingInt32, -2, 0, nullptr, comm(0), nullptr),
                      horingInvalidArgument, "HORING_ANY_RANK"));
  EXPECT_TRUE(refuses(horingSendTagged(&value, 1, horingInt32, 0, 0, comm(0), nullptr), horingInvalidArgument,
                      "with itself"));
  EXPECT_TRUE(refuses(horingRecvTagged(nullptr, 1, horingInt32, 1, 0, nullptr, comm(0), nullptr),
                      horingInvalidArgument, "recvbuff is NULL"));
}

TEST_F(TaggedMessageErrors, NameSizesThatDiffer) {
  onEveryRank(2, [&](int rank) {
    std::vector<int32_t> values(10);
    if (rank == 0) {
      // It may be on its way before the other rank sees it.
      const horingResult_t sent = horingSendTagged(values.data(), 10, horingInt32, 1, 4, comm(0), nullptr);
      EXPECT_TRUE(sent == horingSuccess || sent == horingInvalidUsage) << horingGetLastError(nullptr);
    } else {
      EXPECT_TRUE(refuses(horingRecvTagged(values.data(), 9, horingInt32, 0, 4, nullptr, comm(1), nullptr),
                          horingInvalidUsage, "36 bytes with tag 4, and rank 0 sent 40"));
    }
  });
}

TEST_F(TaggedMessageErrors, NameTheMessageThatDoesNotCome) {
  ASSERT_HORING(horingCommSetTimeout(comm(1), 300));
  int32_t value = 0;
  EXPECT_TRUE(refuses(horingRecvTagged(&value, 1, horingInt32, 0, 5, nullptr, comm(1), nullptr),
                      horingTimeout, "a message from rank 0"));
}

TEST_F(TaggedMessageErrors, ATimeoutHoldsForMessagesThatBeginLater) {
  int32_t values[2] = {};
  OwnStream first, second;
  ASSERT_HORING(horingRecvTagged(&values[0], 1, horingInt32, 0, 5, nullptr, comm(1), first));
  ASSERT_HORING(horingCommSetTimeout(comm(1), 300));
  ASSERT_HORING(horingRecvTagged(&values[1], 1, horingInt32, 0, 6, nullptr, comm(1), second));
  EXPECT_TRUE(refuses(horingStreamSynchronize(second), horingTimeout, "300 ms"));
  EXPECT_EQ(horingStreamSynchronize(first), horingTimeout) << "the error sticks";
}

TEST_F(TaggedMessageErrors, EndWithAnAbort) {
  int32_t value = 0;
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  ASSERT_HORING(horingRecvTagged(&value, 1, horingInt32, HORING_ANY_RANK, 5, nullptr, comm(1), stream));
  ASSERT_HORING(horingCommAbort(comm(1)));
  EXPECT_EQ(horingStreamSynchronize(stream), horingInvalidUsage);
  EXPECT_HORING(horingStreamDestroy(stream));
  comms_[1] = nullptr;
}

TEST_F(TaggedMessageErrors, ATimeoutIsChecked) {
  EXPECT_TRUE(refuses(horingCommSetTimeout(comm(0), -1), horingInvalidArgument, "timeoutMs is -1"));
  EXPECT_TRUE(refuses(horingCommSetTimeout(comm(0), 86'400'001), horingInvalidArgument, "86400001"));
}

// Rank 0 sends while its collective waits on a stream for that of another communicator, which rank 1 joins when it has received.
TEST_F(TwoRanks, SendWhileACollectiveWaitsForItsTurn) {
  const std::vector<horingComm_t> others = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    const horingComm_t other = others[static_cast<size_t>(rank)];
    OwnStream working, sending;
    int32_t sums[2] = {1, 1}, message = 7;
    if (rank == 1) {
      message = 0;
      ASSERT_HORING(horingRecvTagged(&message, 1, horingInt32, 0, 1, nullptr, comm(1), nullptr));
      EXPECT_EQ(message, 7);
    }
    ASSERT_HORING(horingAllReduce(&sums[0], &sums[0], 1, horingInt32, horingSum, other, working));
    ASSERT_HORING(horingAllReduce(&sums[1], &sums[1], 1, horingInt32, horingSum, comm(rank), working));
    if (rank == 0) {
      ASSERT_HORING(horingSendTagged(&message, 1, horingInt32, 1, 1, comm(0), sending));
    }
    ASSERT_HORING(horingStreamSynchronize(sending));
    ASSERT_HORING(horingStreamSynchronize(working));
    EXPECT_EQ(sums[0] + sums[1], 4);
  });
  for (const horingComm_t each : others) EXPECT_HORING(horingCommDestroy(each));
}

TEST_F(TwoRanks, WaitForAMarkOnAStream) {
  std::barrier both_looked(2);
  onEveryRank(2, [&](int rank) {
    OwnStream stream;
    int32_t value = rank, other = -1;
    const int peer = 1 - rank;
    ASSERT_HORING(horingAllReduce(&value, &value, 1, horingInt32, horingSum, comm(rank), stream));
    uint64_t mark = 0;
    ASSERT_HORING(horingStreamMark(stream, &mark));
    ASSERT_HORING(horingRecvTagged(&other, 1, horingInt32, peer, 1, nullptr, comm(rank), stream));
    ASSERT_HORING(horingStreamWait(stream, mark, 60'000));
    EXPECT_EQ(value, 1);
    EXPECT_EQ(horingStreamWait(stream, HORING_STREAM_ALL, 10), horingInProgress);
    both_looked.arrive_and_wait();
    ASSERT_HORING(horingSendTagged(&value, 1, horingInt32, peer, 1, comm(rank), nullptr));
    ASSERT_HORING(horingStreamWait(stream, HORING_STREAM_ALL, 60'000));
    EXPECT_EQ(other, 1);
  });
}

}  // namespace
