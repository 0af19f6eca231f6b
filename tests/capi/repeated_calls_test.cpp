// Repeated small calls take a short path, which must notice every difference to the previous call.
#include <algorithm>
#include <cstring>

#include "ways.h"

namespace {

constexpr size_t kCount = 3;

// The sum of all ranks' values at that place.
float expectedSum(int ranks, size_t i, float added) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += element(rank, i) + added;
  return sum;
}

TEST_P(Collectives, RepeatedCallsUseTheBuffersOfEach) {
  onEveryRank(ranks(), [&](int rank) {
    for (int call = 0; call < 4; ++call) {
      const auto added = static_cast<float>(call);
      std::vector<float> input(kCount), output(kCount, -1.0f);
      for (size_t i = 0; i < kCount; ++i) input[i] = element(rank, i) + added;
      float* const to = call % 2 == 0 ? output.data() : input.data();
      ASSERT_HORING(horingAllReduce(input.data(), to, kCount, horingFloat, horingSum, comm(rank), nullptr));
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(to[i], expectedSum(ranks(), i, added)) << "call " << call << " element " << i;
    }
  });
}

TEST_P(Collectives, RepeatedCallsFindAnotherCountTypeOrOperation) {
  onEveryRank(ranks(), [&](int rank) {
    std::vector<float> input(kCount + 1), output(kCount + 1);
    for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
    const auto reduce = [&](size_t count, horingDataType_t type, horingRedOp_t op) {
      output.assign(output.size(), -1.0f);
      return horingAllReduce(input.data(), output.data(), count, type, op, comm(rank), nullptr);
    };
    for (int round = 0; round < 3; ++round) {
      for (const size_t count : {kCount, kCount, kCount + 1, kCount}) {
        ASSERT_HORING(reduce(count, horingFloat, horingSum));
        for (size_t i = 0; i < output.size(); ++i)
          ASSERT_EQ(output[i], i < count ? expectedSum(ranks(), i, 0) : -1.0f) << count << ' ' << i;
      }
      ASSERT_HORING(reduce(kCount, horingFloat, horingAvg));
      EXPECT_FLOAT_EQ(output[1], expectedSum(ranks(), 1, 0) / static_cast<float>(ranks()));
      ASSERT_HORING(reduce(kCount, horingUint32, horingBitAnd));
      uint32_t common = ~0u, found = 0;
      for (int peer = 0; peer < ranks(); ++peer) {
        const float value = element(peer, 1);
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        common &= bits;
      }
      std::memcpy(&found, &output[1], sizeof found);
      EXPECT_EQ(found, common);
    }
  });
}

TEST_P(Collectives, RepeatedCallsFindAnotherRoot) {
  onEveryRank(ranks(), [&](int rank) {
    for (int round = 0; round < 3; ++round)
      for (int root = 0; root < ranks(); ++root)
        for (int again = 0; again < 2; ++again) {
          float value = element(rank, static_cast<size_t>(round));
          ASSERT_HORING(horingBcast(&value, 1, horingFloat, root, comm(rank), nullptr));
          ASSERT_EQ(value, element(root, static_cast<size_t>(round))) << "root " << root;
        }
  });
}

TEST_P(Collectives, RepeatedCallsAreCheckedEachTime) {
  onEveryRank(ranks(), [&](int rank) {
    alignas(8) float data[4 * kCount] = {};
    float* const input = data;
    float* const output = data + 2 * kCount;
    const auto reduce = [&](const void* from, void* to, int op = horingSum) {
      return horingAllReduce(from, to, kCount, horingFloat, static_cast<horingRedOp_t>(op), comm(rank),
                             nullptr);
    };
    for (int call = 0; call < 2; ++call) ASSERT_HORING(reduce(input, output));
    EXPECT_TRUE(refuses(reduce(nullptr, output), horingInvalidArgument, "sendbuff is NULL"));
    EXPECT_TRUE(refuses(reduce(input, nullptr), horingInvalidArgument, "recvbuff is NULL"));
    EXPECT_TRUE(
        refuses(reduce(input, reinterpret_cast<char*>(output) + 1), horingInvalidArgument, "aligned"));
    EXPECT_TRUE(refuses(reduce(input, input + 1), horingInvalidArgument, "overlap"));
    EXPECT_TRUE(refuses(reduce(input, output, -1), horingInvalidArgument, "op is -1"));
    for (size_t i = 0; i < kCount; ++i) input[i] = element(rank, i);
    ASSERT_HORING(reduce(input, output)) << "what was refused is no call";
    for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(output[i], expectedSum(ranks(), i, 0));
  });
}

TEST_P(Collectives, RepeatedCallsKeepTheirPlaceBehindThoseOfGroupsAndStreams) {
  onEveryRank(ranks(), [&](int rank) {
    float value = element(rank, 0), doubled = 0;
    const auto sumOf = [&](float* from, float* to, horingStream_t stream) {
      return horingAllReduce(from, to, 1, horingFloat, horingSum, comm(rank), stream);
    };
    float first = 0;
    for (int call = 0; call < 2; ++call) ASSERT_HORING(sumOf(&value, &first, nullptr));
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(sumOf(&first, &doubled, nullptr));
    EXPECT_EQ(doubled, 0) << "a group holds it until it ends";
    ASSERT_HORING(horingGroupEnd());
    const auto all = static_cast<float>(ranks());
    EXPECT_EQ(doubled, all * expectedSum(ranks(), 0, 0));
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    float third = 0, fourth = 0;
    ASSERT_HORING(sumOf(&doubled, &third, stream));
    ASSERT_HORING(sumOf(&third, &fourth, nullptr)) << "comes after what is on the stream";
    EXPECT_EQ(fourth, all * all * all * expectedSum(ranks(), 0, 0));
    ASSERT_HORING(horingStreamDestroy(stream));
  });
}

// Ranks that ask each other for their buffers do so by an all-gather, which may use the plan of a small one.
TEST_P(Collectives, RepeatedCallsFindThatTheirPlanServedAnother) {
  constexpr size_t kLarge = 1 << 17;
  onEveryRank(ranks(), [&](int rank) {
    const auto all = static_cast<size_t>(ranks());
    void* memory = nullptr;
    ASSERT_HORING(horingMemAlloc(&memory, 2 * kLarge * sizeof(float)));
    auto* const large = static_cast<float*>(memory);
    std::fill_n(large, kLarge, 1.0f);
    for (int call = 0; call < 6; ++call) {
      std::vector<float> output(all, -1.0f);
      const float own = element(rank, static_cast<size_t>(call));
      ASSERT_HORING(horingAllGather(&own, output.data(), 1, horingFloat, comm(rank), nullptr));
      for (size_t peer = 0; peer < all; ++peer)
        ASSERT_EQ(output[peer], element(static_cast<int>(peer), static_cast<size_t>(call)))
            << "call " << call;
      if (call % 2 == 0) continue;
      ASSERT_HORING(
          horingAllReduce(large, large + kLarge, kLarge, horingFloat, horingSum, comm(rank), nullptr));
      ASSERT_EQ(large[kLarge + kLarge / 2], static_cast<float>(ranks()));
    }
    ASSERT_HORING(horingMemFree(memory));
  });
}

TEST(RepeatedCalls, AreRefusedOnceTheCommunicatorIsFinalized) {
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingCommInitAll(&comm, 1, nullptr));
  float value = 1;
  const auto reduce = [&] {
    return horingAllReduce(&value, &value, 1, horingFloat, horingSum, comm, nullptr);
  };
  for (int call = 0; call < 3; ++call) ASSERT_HORING(reduce());
  ASSERT_HORING(horingCommFinalize(comm));
  EXPECT_TRUE(refuses(reduce(), horingInvalidUsage, "finalized"));
  EXPECT_HORING(horingCommDestroy(comm));
}

TEST(RepeatedCalls, FailOnceTheCommunicatorHasAnError) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const auto reduce = [&](int rank) {
    float value = 1;
    return horingAllReduce(&value, &value, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)],
                           nullptr);
  };
  onEveryRank(2, [&](int rank) {
    for (int call = 0; call < 3; ++call) EXPECT_HORING(reduce(rank));
  });
  EXPECT_HORING(horingCommAbort(comms[0]));
  EXPECT_TRUE(refuses(reduce(0), horingInvalidArgument, "not a live communicator"));
  EXPECT_TRUE(refuses(reduce(1), horingRemoteError, "rank 0"));
  EXPECT_TRUE(refuses(reduce(1), horingRemoteError, "rank 0")) << "it sticks";
  EXPECT_HORING(horingCommAbort(comms[1]));
}

}  // namespace
