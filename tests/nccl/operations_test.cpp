// Collectives, messages in groups, and scalars through NCCL's interface.
#include <algorithm>
#include <numeric>

#include "clients.h"

namespace {

constexpr size_t kCount = 1000;

std::vector<float> ofRank(int rank, size_t count = kCount) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<size_t>(rank) * 31 + i * 7) % 101);
  return values;
}
float sumAt(int ranks, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += ofRank(rank, i + 1)[i];
  return sum;
}

class NcclOperations : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kRanks = 3;
  void SetUp() override {
    if (GetParam()) {
      comms_.resize(kRanks);
      ASSERT_NCCL(ncclCommInitAll(comms_.data(), kRanks, nullptr));
    } else {
      comms_ = meet(kRanks);
    }
  }
  void TearDown() override { destroyAll(comms_); }
  ncclComm_t of(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  std::vector<ncclComm_t> comms_;
};

// Each rank puts to all ranks in one group, and waits for all in it.
TEST_P(NcclOperations, PutIntoWindows) {
  onEveryRank(kRanks, [&](int rank) {
    std::vector<float> own = ofRank(rank), all(kCount * kRanks, -1);
    ncclWindow_t window = nullptr;
    void* pointer = nullptr;
    ASSERT_NCCL(ncclCommWindowRegister(of(rank), all.data(), all.size() * sizeof(float), &window,
                                       NCCL_WIN_COLL_SYMMETRIC));
    ASSERT_NE(window, nullptr);
    EXPECT_NCCL(ncclWinGetUserPtr(of(rank), window, &pointer));
    EXPECT_EQ(pointer, all.data());
    std::vector<ncclWaitSignalDesc_t> waits;
    for (int peer = 0; peer < kRanks; ++peer) waits.push_back({2, peer, 0, 0});
    ASSERT_NCCL(ncclGroupStart());
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_NCCL(ncclPutSignal(own.data(), kCount, ncclFloat, peer, window,
                                static_cast<size_t>(rank) * kCount * sizeof(float), 0, 0, 0, of(rank),
                                nullptr));
      EXPECT_NCCL(ncclSignal(peer, 0, 0, 0, of(rank), nullptr));
    }
    EXPECT_NCCL(ncclWaitSignal(kRanks, waits.data(), of(rank), nullptr));
    ASSERT_NCCL(ncclGroupEnd());
    for (int peer = 0; peer < kRanks; ++peer) {
      const float* const part = all.data() + static_cast<size_t>(peer) * kCount;
      EXPECT_EQ(std::vector<float>(part, part + kCount), ofRank(peer));
    }
    EXPECT_NCCL(ncclCommWindowDeregister(of(rank), window));
    EXPECT_NCCL(ncclCommWindowDeregister(of(rank), nullptr));
  });
}

TEST_P(NcclOperations, GiveWhatTheirNamesSay) {
  onEveryRank(kRanks, [&](int rank) {
    const std::vector<float> own = ofRank(rank);
    std::vector<float> all(kCount * kRanks), one(kCount);
    EXPECT_NCCL(ncclAllReduce(own.data(), one.data(), kCount, ncclFloat, ncclSum, of(rank), nullptr));
    for (size_t i = 0; i < kCount; i += 97) EXPECT_EQ(one[i], sumAt(kRanks, i));
    EXPECT_NCCL(ncclAllGather(own.data(), all.data(), kCount, ncclFloat, of(rank), nullptr));
    for (int r = 0; r < kRanks; ++r) EXPECT_EQ(all[static_cast<size_t>(r) * kCount + 5], ofRank(r)[5]);
    std::vector<float> block(kCount);
    EXPECT_NCCL(ncclReduceScatter(all.data(), block.data(), kCount, ncclFloat, ncclMax, of(rank), nullptr));
    EXPECT_EQ(block, ofRank(rank));  // the same input everywhere
    std::vector<float> sent = own;
    EXPECT_NCCL(ncclBcast(sent.data(), kCount, ncclFloat, 1, of(rank), nullptr));
    EXPECT_EQ(sent, ofRank(1));
    EXPECT_NCCL(ncclBroadcast(own.data(), one.data(), kCount, ncclFloat, 2, of(rank), nullptr));
    EXPECT_EQ(one, ofRank(2));
    EXPECT_NCCL(ncclReduce(own.data(), one.data(), kCount, ncclFloat, ncclSum, 0, of(rank), nullptr));
    if (rank == 0) {
      EXPECT_EQ(one[7], sumAt(kRanks, 7));
    }
    std::vector<float> swapped(all.size());
    EXPECT_NCCL(ncclAlltoAll(all.data(), swapped.data(), kCount, ncclFloat, of(rank), nullptr));
    EXPECT_EQ(swapped[kCount + 5], ofRank(rank)[5]);
    std::fill(all.begin(), all.end(), 0.f);
    EXPECT_NCCL(ncclGather(own.data(), all.data(), kCount, ncclFloat, 0, of(rank), nullptr));
    if (rank == 0) {
      EXPECT_EQ(all[2 * kCount + 3], ofRank(2)[3]);
    }
    EXPECT_NCCL(ncclScatter(all.data(), block.data(), kCount, ncclFloat, 0, of(rank), nullptr));
    EXPECT_EQ(block, own);
  });
}

TEST_P(NcclOperations, PassMessagesInGroups) {
  onEveryRank(kRanks, [&](int rank) {
    const std::vector<float> own = ofRank(rank);
    std::vector<float> got(kCount);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclSend(own.data(), kCount, ncclFloat, (rank + 1) % kRanks, of(rank), nullptr));
    EXPECT_NCCL(ncclRecv(got.data(), kCount, ncclFloat, (rank + kRanks - 1) % kRanks, of(rank), nullptr));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(got, ofRank((rank + kRanks - 1) % kRanks));
  });
}

TEST_P(NcclOperations, OfOneThreadForAllRanksAreAGroup) {
  std::vector<std::vector<float>> data;
  for (int rank = 0; rank < kRanks; ++rank) data.push_back(ofRank(rank));
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    float* const at = data[static_cast<size_t>(rank)].data();
    EXPECT_NCCL(ncclAllReduce(at, at, kCount, ncclFloat, ncclSum, of(rank), nullptr));
  }
  EXPECT_NCCL(ncclGroupEnd());
  for (const auto& of_rank : data) EXPECT_EQ(of_rank[9], sumAt(kRanks, 9));
}

TEST_P(NcclOperations, TakeScalars) {
  onEveryRank(kRanks, [&](int rank) {
    float half = 0.5f, x = 4;
    ncclRedOp_t op;
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, of(rank)));
    EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, op, of(rank), nullptr));
    EXPECT_EQ(x, 6);
    EXPECT_NCCL(ncclRedOpDestroy(op, of(rank)));
  });
}

TEST_P(NcclOperations, WithSettingsOfTheCallRunTheSame) {
  onEveryRank(kRanks, [&](int rank) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.algSelection = "ring,Tree";
    config.forceAlgSelection = 0;
    config.maxCTAs = 4;
    std::vector<float> own = ofRank(rank), one(kCount), all(kCount * kRanks);
    EXPECT_NCCL(
        ncclAllReduceConfig(own.data(), one.data(), kCount, ncclFloat, ncclSum, of(rank), nullptr, &config));
    EXPECT_EQ(one[3], sumAt(kRanks, 3));
    EXPECT_NCCL(ncclAllGatherConfig(own.data(), all.data(), kCount, ncclFloat, of(rank), nullptr, nullptr));
    EXPECT_EQ(all[kCount], ofRank(1)[0]);
    EXPECT_NCCL(ncclReduceScatterConfig(all.data(), one.data(), kCount, ncclFloat, ncclMin, of(rank), nullptr,
                                        &config));
    EXPECT_EQ(one, own);
    EXPECT_NCCL(
        ncclBroadcastConfig(own.data(), one.data(), kCount, ncclFloat, 1, of(rank), nullptr, &config));
    EXPECT_EQ(one, ofRank(1));
    EXPECT_NCCL(
        ncclReduceConfig(own.data(), one.data(), kCount, ncclFloat, ncclSum, 1, of(rank), nullptr, &config));
    std::vector<float> swapped(all.size());
    EXPECT_NCCL(
        ncclAlltoAllConfig(all.data(), swapped.data(), kCount, ncclFloat, of(rank), nullptr, &config));
    EXPECT_NCCL(ncclGatherConfig(own.data(), all.data(), kCount, ncclFloat, 2, of(rank), nullptr, &config));
    EXPECT_NCCL(ncclScatterConfig(all.data(), one.data(), kCount, ncclFloat, 2, of(rank), nullptr, &config));
    EXPECT_EQ(one, own);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclOperations, testing::Bool(),
                         [](const auto& one) { return one.param ? "OfOneCall" : "ThatMeet"; });

}  // namespace
