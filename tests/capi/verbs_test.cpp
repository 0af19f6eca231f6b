// Collectives over RDMA: when it is used, what remains afterwards, and a link that fails meanwhile.
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "ways.h"

namespace {

bool hasRdma() {
  return std::filesystem::exists("/sys/class/infiniband");
}

TEST(Verbs, DemandedWhereThereIsNoneIsAnError) {
  if (hasRdma()) GTEST_SKIP() << "this machine has RDMA";
  const Setting only("HORING_TRANSPORTS", "shm,verbs");
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, id, 0), horingSystemError, "no RDMA device"));
}

TEST(Verbs, GivesWayToSocketsWhereThereIsNone) {
  const Setting transports("HORING_TRANSPORTS", "verbs,socket");
  const Setting devices("HORING_IB_HCA", "nosuch");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  ASSERT_FALSE(testing::Test::HasFailure());
  onEveryRank(2, [&](int rank) {
    int value = rank + 1;
    EXPECT_HORING(
        horingAllReduce(&value, &value, 1, horingInt, horingSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(value, 3);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Verbs, RefusesAWrongListOfDevicesAlsoWhereSocketsWouldServe) {
  if (!hasRdma()) GTEST_SKIP() << "without devices nobody reads the list";
  const Setting devices("HORING_IB_HCA", "rxe0:x");
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, id, 0), horingInvalidArgument, "HORING_IB_HCA=rxe0:x"));
}

class VerbsWires : public testing::Test {
 protected:
  static constexpr int kRanks = 4;
  void SetUp() override { HORING_NEEDS_RDMA_MACHINE(); }

  // Queue pairs, registrations and the like of all devices, as the kernel counts them.
  static std::string resources() {
    std::string text;
    std::array<char, 256> line;
    std::FILE* const program = ::popen("rdma resource show", "r");
    while (program && std::fgets(line.data(), line.size(), program)) text += line.data();
    if (program) ::pclose(program);
    return text;
  }
  static void allReduce(const std::vector<horingComm_t>& comms, size_t count, int times) {
    onEveryRank(kRanks, [&](int rank) {
      std::vector<float> values(count);
      for (int time = 0; time < times; ++time) {
        for (size_t i = 0; i < count; ++i) values[i] = element(rank, i + static_cast<size_t>(time));
        ASSERT_HORING(horingAllReduce(values.data(), values.data(), count, horingFloat, horingSum,
                                      comms[static_cast<size_t>(rank)], nullptr));
        for (size_t i = 0; i < count; ++i) {
          float expected = 0;
          for (int peer = 0; peer < kRanks; ++peer) expected += element(peer, i + static_cast<size_t>(time));
          ASSERT_EQ(values[i], expected) << "rank " << rank << ", time " << time << ", element " << i;
        }
      }
    });
  }

  const Setting transports_{"HORING_TRANSPORTS", "verbs"};
};

TEST_F(VerbsWires, NothingIsLeftBehind) {
  const std::string before = resources();
  EXPECT_NE(before.find("rxe3"), std::string::npos) << before;
  const std::vector<horingComm_t> comms = makeOnWires(kRanks);
  ASSERT_FALSE(HasFailure());
  allReduce(comms, 7, 50);
  allReduce(comms, 100'000, 1);  // other sizes may use other algorithms, and these other links
  const std::string meanwhile = resources();
  EXPECT_NE(meanwhile, before);
  allReduce(comms, 7, 200);
  allReduce(comms, 100'000, 2);
  EXPECT_EQ(resources(), meanwhile) << "operations make nothing";
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  EXPECT_EQ(resources(), before);
}

TEST_F(VerbsWires, AnAllReduceSurvivesAPulledWire) {
  const std::vector<horingComm_t> comms = makeOnWires(kRanks);
  ASSERT_FALSE(HasFailure());
  allReduce(comms, 1000, 1);
  allReduce(comms, 1 << 18, 1);  // all links are made before the wire is pulled
  std::thread puller([] { EXPECT_TRUE(horing::testing::pullWire(0)); });
  allReduce(comms, 1 << 18, 8);
  puller.join();
  allReduce(comms, 1000, 1);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  EXPECT_TRUE(horing::testing::plugWire(0));
}

}  // namespace
