// Every collective through the library, over every way of making communicators.
#include <algorithm>
#include <numeric>

#include "ways.h"

namespace {

TEST_P(Collectives, AllReduceSumsOnEveryRank) {
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1021}, size_t{262144}}) {
      std::vector<float> input(count), output(count, -1.0f);
      for (size_t i = 0; i < count; ++i) input[i] = element(rank, i);
      ASSERT_HORING(
          horingAllReduce(input.data(), output.data(), count, horingFloat, horingSum, comm(rank), nullptr));
      for (size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (int peer = 0; peer < ranks(); ++peer) expected += element(peer, i);
        ASSERT_EQ(output[i], expected) << "rank " << rank << " element " << i << " of " << count;
      }
      ASSERT_HORING(
          horingAllReduce(input.data(), input.data(), count, horingFloat, horingSum, comm(rank), nullptr));
      ASSERT_EQ(input, output) << "in place differs";
    }
  });
}

TEST_P(Collectives, BitwiseOperationsCombineBits) {
  constexpr size_t kCount = 1021;
  const auto bits = [](int rank, size_t i) { return uint32_t{1} << (static_cast<size_t>(rank) + i) % 32; };
  onEveryRank(ranks(), [&](int rank) {
    std::vector<uint32_t> one(kCount), all_but_one(kCount), result(kCount);
    for (size_t i = 0; i < kCount; ++i) all_but_one[i] = ~(one[i] = bits(rank, i));
    const auto reduce = [&](const std::vector<uint32_t>& input, horingRedOp_t op) {
      ASSERT_HORING(
          horingAllReduce(input.data(), result.data(), kCount, horingUint32, op, comm(rank), nullptr));
      for (size_t i = 0; i < kCount; ++i) {
        uint32_t any = 0, odd = 0;
        for (int peer = 0; peer < ranks(); ++peer) any |= bits(peer, i), odd ^= bits(peer, i);
        ASSERT_EQ(result[i], op == horingBitAnd ? ~any : op == horingBitOr ? any : odd) << op << ' ' << i;
      }
    };
    reduce(all_but_one, horingBitAnd);
    reduce(one, horingBitOr);
    reduce(one, horingBitXor);
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsBlock) {
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t count : {size_t{1}, size_t{1021}, size_t{65536}}) {
      std::vector<int32_t> input(count * static_cast<size_t>(ranks())), output(count, -1);
      for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int32_t>(element(rank, i));
      ASSERT_HORING(horingReduceScatter(input.data(), output.data(), count, horingInt32, horingMax,
                                        comm(rank), nullptr));
      for (size_t i = 0; i < count; ++i) {
        int32_t expected = -1;
        for (int peer = 0; peer < ranks(); ++peer)
          expected =
              std::max(expected, static_cast<int32_t>(element(peer, static_cast<size_t>(rank) * count + i)));
        ASSERT_EQ(output[i], expected) << "rank " << rank << " element " << i << " of " << count;
      }
    }
  });
}

TEST_P(Collectives, AllGatherCollectsBlocksInRankOrder) {
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t count : {size_t{1}, size_t{1021}, size_t{65536}}) {
      std::vector<float> output(count * static_cast<size_t>(ranks()), -1.0f);
      float* own = output.data() + static_cast<size_t>(rank) * count;
      for (size_t i = 0; i < count; ++i) own[i] = element(rank, i);
      ASSERT_HORING(horingAllGather(own, output.data(), count, horingFloat, comm(rank), nullptr));
      ASSERT_TRUE(holds(output.data(), output.size(),
                        [&](size_t i) { return element(static_cast<int>(i / count), i % count); }))
          << "rank " << rank;
    }
  });
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsVector) {
  onEveryRank(ranks(), [&](int rank) {
    for (int root = 0; root < ranks(); ++root)
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{200003}}) {
        std::vector<float> input(rank == root ? count : 0), output(count, -1.0f);
        for (size_t i = 0; i < input.size(); ++i) input[i] = element(root, i);
        ASSERT_HORING(
            horingBroadcast(input.data(), output.data(), count, horingFloat, root, comm(rank), nullptr));
        const auto expected = [&](size_t i) { return element(root, i); };
        ASSERT_TRUE(holds(output.data(), count, expected)) << "rank " << rank;
        if (rank != root) std::fill(output.begin(), output.end(), -2.0f);
        ASSERT_HORING(horingBcast(output.data(), count, horingFloat, root, comm(rank), nullptr));
        ASSERT_TRUE(holds(output.data(), count, expected)) << "in place, rank " << rank;
      }
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheSum) {
  onEveryRank(ranks(), [&](int rank) {
    for (int root = 0; root < ranks(); ++root)
      for (const size_t count : {size_t{1}, size_t{1021}, size_t{200003}}) {
        std::vector<float> input(count), output(rank == root ? count : 0, -1.0f);
        for (size_t i = 0; i < count; ++i) input[i] = element(rank, i);
        ASSERT_HORING(horingReduce(input.data(), output.data(), count, horingFloat, horingSum, root,
                                   comm(rank), nullptr));
        const auto expected = [&](size_t i) {
          float sum = 0;
          for (int peer = 0; peer < ranks(); ++peer) sum += element(peer, i);
          return sum;
        };
        ASSERT_TRUE(holds(output.data(), output.size(), expected)) << "root " << root;
        ASSERT_HORING(horingReduce(input.data(), rank == root ? input.data() : nullptr, count, horingFloat,
                                   horingSum, root, comm(rank), nullptr));
        if (rank == root) {
          ASSERT_EQ(input, output) << "in place differs";
        }
      }
  });
}

TEST_P(Collectives, GatherCollectsBlocksOnTheRoot) {
  onEveryRank(ranks(), [&](int rank) {
    for (int root = 0; root < ranks(); ++root)
      for (const size_t count : {size_t{1}, size_t{1021}, size_t{65536}}) {
        std::vector<float> input(count),
            output(rank == root ? count * static_cast<size_t>(ranks()) : 0, -1.0f);
        for (size_t i = 0; i < count; ++i) input[i] = element(rank, i);
        ASSERT_HORING(
            horingGather(input.data(), output.data(), count, horingFloat, root, comm(rank), nullptr));
        ASSERT_TRUE(holds(output.data(), output.size(),
                          [&](size_t i) { return element(static_cast<int>(i / count), i % count); }))
            << "root " << root;
      }
  });
}

TEST_P(Collectives, ScatterGivesEachRankItsBlock) {
  onEveryRank(ranks(), [&](int rank) {
    for (int root = 0; root < ranks(); ++root)
      for (const size_t count : {size_t{1}, size_t{1021}, size_t{65536}}) {
        std::vector<float> input(rank == root ? count * static_cast<size_t>(ranks()) : 0),
            output(count, -1.0f);
        for (size_t i = 0; i < input.size(); ++i) input[i] = element(root, i);
        ASSERT_HORING(
            horingScatter(input.data(), output.data(), count, horingFloat, root, comm(rank), nullptr));
        ASSERT_TRUE(holds(output.data(), count,
                          [&](size_t i) { return element(root, static_cast<size_t>(rank) * count + i); }))
            << "root " << root;
      }
  });
}

TEST_P(Collectives, AllToAllExchangesBlocks) {
  onEveryRank(ranks(), [&](int rank) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{65536}}) {
      std::vector<float> input(count * static_cast<size_t>(ranks())), output(input.size(), -1.0f);
      for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
      ASSERT_HORING(horingAlltoAll(input.data(), output.data(), count, horingFloat, comm(rank), nullptr));
      const auto expected = [&](size_t i) {
        return element(static_cast<int>(i / count), static_cast<size_t>(rank) * count + i % count);
      };
      ASSERT_TRUE(holds(output.data(), output.size(), expected)) << "rank " << rank;
    }
  });
}

TEST_P(Collectives, ManyInARowNeedNoBarrier) {
  onEveryRank(ranks(), [&](int rank) {
    std::vector<int64_t> buffer(100);
    for (int64_t round = 0; round < 300; ++round) {
      std::iota(buffer.begin(), buffer.end(), round);
      ASSERT_HORING(horingAllReduce(buffer.data(), buffer.data(), buffer.size(), horingInt64, horingSum,
                                    comm(rank), nullptr));
      ASSERT_EQ(buffer[3], (round + 3) * ranks()) << "round " << round;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Collectives, everyWay());
INSTANTIATE_TEST_SUITE_P(Rdma, Collectives, testing::Values(kVerbsWay));

}  // namespace
