// Bad input: a clear error that names the argument, and nothing lost.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"

extern "C" int horingVersionSeenByC(void);
extern "C" unsigned long horingUniqueIdSizeSeenByC(void);

namespace {

class Arguments : public testing::Test {
 protected:
  void SetUp() override { ASSERT_HORING(horingCommInitAll(&comm_, 1, nullptr)); }
  void TearDown() override { EXPECT_HORING(horingCommDestroy(comm_)); }
  horingResult_t allReduce(const void* send, void* recv, size_t count, int type = horingFloat,
                           int op = horingSum) {
    return horingAllReduce(send, recv, count, static_cast<horingDataType_t>(type),
                           static_cast<horingRedOp_t>(op), comm_, nullptr);
  }
  horingComm_t comm_ = nullptr;
  alignas(64) float data_[64] = {};
};

TEST(Header, MeansTheSameInC) {
  int version = 0;
  ASSERT_HORING(horingGetVersion(&version));
  EXPECT_EQ(version, horingVersionSeenByC());
  EXPECT_EQ(horingUniqueIdSizeSeenByC(), 128u);
  EXPECT_STREQ(horingGetErrorString(horingRemoteError), "remote error");
  EXPECT_STREQ(horingGetErrorString(static_cast<horingResult_t>(99)), "unknown result code");
}

// Guards of programs that were written for NCCL.
static_assert(HORING_NCCL_VERSION(2, 8, 4) == 2804 && HORING_NCCL_VERSION(2, 14, 0) == 21400);
static_assert(HORING_NCCL_VERSION_CODE >= HORING_NCCL_VERSION(2, 26, 0));

TEST(Header, OutputPointersMayNotBeNull) {
  EXPECT_TRUE(refuses(horingGetVersion(nullptr), horingInvalidArgument, "version"));
  EXPECT_TRUE(refuses(horingGetUniqueId(nullptr), horingInvalidArgument, "uniqueId"));
  EXPECT_TRUE(refuses(horingCommInitAll(nullptr, 2, nullptr), horingInvalidArgument, "comms"));
  EXPECT_TRUE(refuses(horingCommInitFromEnv(nullptr), horingInvalidArgument, "comm"));
}

TEST(InitAll, NamesAGpuThatCannotBe) {
  horingComm_t comms[2] = {};
  const int devices[] = {0, -1};
  EXPECT_TRUE(refuses(horingCommInitAll(comms, 2, devices), horingInvalidArgument, "devlist[1] is -1"));
}

TEST_F(Arguments, WithoutAGpuThereIsNoNumberOfOne) {
  int device = 0;
  EXPECT_HORING(horingCommCuDevice(comm_, &device));
  EXPECT_EQ(device, -1);
  EXPECT_TRUE(refuses(horingCommCuDevice(comm_, nullptr), horingInvalidArgument, "device"));
  EXPECT_TRUE(refuses(horingCommCuDevice(HORING_COMM_NULL, &device), horingInvalidArgument, "comm"));
}

TEST(InitAll, NumbersItsRanksAsTheListDoes) {
  horingComm_t comms[2] = {};
  const int devices[] = {3, 1};
  ASSERT_EQ(horingCommInitAll(comms, 2, devices), horingSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    int device = -1;
    EXPECT_HORING(horingCommCuDevice(comms[rank], &device));
    EXPECT_EQ(device, devices[rank]);
    EXPECT_HORING(horingCommAbort(comms[rank]));
  }
  ASSERT_EQ(horingCommInitAll(comms, 1, nullptr), horingSuccess);  // a handle that is used again
  int device = 0;
  EXPECT_HORING(horingCommCuDevice(comms[0], &device));
  EXPECT_EQ(device, -1);
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST_F(Arguments, AGroupOfWhichAPartWasDiscardedLaunchesNothing) {
  EXPECT_TRUE(refuses(horingGroupDiscard(), horingInvalidUsage, "horingGroupStart"));
  data_[0] = 1;
  data_[1] = 0;
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(data_, data_ + 1, 1, horingFloat, horingSum, comm_, nullptr));
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingGroupDiscard());
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "horingGroupDiscard"));
  EXPECT_EQ(data_[1], 0);
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "horingGroupStart"));
  EXPECT_HORING(allReduce(data_, data_ + 1, 1));
}

TEST_F(Arguments, AGroupThatIsExplainedLaunchesNothing) {
  horingSimInfo_t info = HORING_SIM_INFO_INITIALIZER;
  char text[64] = "?";
  EXPECT_TRUE(refuses(horingGroupExplainEnd(&info, text, sizeof text), horingInvalidUsage,
                      "horingGroupExplainEnd without a horingGroupStart"));
  data_[0] = 1;
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(allReduce(data_, data_ + 1, 1));
  EXPECT_HORING(horingGroupExplainEnd(&info, text, sizeof text));
  EXPECT_EQ(info.estimatedTime, 0) << "a rank alone";
  EXPECT_STREQ(text, "");
  EXPECT_EQ(data_[1], 0);
  ASSERT_HORING(horingGroupStart());
  EXPECT_TRUE(refuses(horingGroupExplainEnd(&info, nullptr, 0), horingInvalidArgument, "buffer is NULL"));
}

TEST(Groups, AreExplained) {
  horingComm_t comms[4] = {};
  ASSERT_HORING(horingCommInitAll(comms, 4, nullptr));
  std::vector<float> values(1 << 20);
  const auto explained = [&](size_t length, const std::function<horingResult_t()>& call) {
    horingSimInfo_t info = HORING_SIM_INFO_INITIALIZER;
    std::string text(length, '?');
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(call());
    EXPECT_HORING(horingGroupExplainEnd(&info, text.data(), text.size()));
    EXPECT_GT(info.estimatedTime, 0);
    return std::string(text.c_str());
  };
  const auto reduce = [&](size_t count) {
    return [&, count] {
      return horingAllReduce(values.data(), values.data(), count, horingFloat, horingSum, comms[0], nullptr);
    };
  };
  // The default machine has latencies and rates of links, and nothing else.
  const std::string large = explained(256, reduce(size_t{1} << 24)), small = explained(256, reduce(1));
  EXPECT_TRUE(large.starts_with("links inside a node: every rank sends at ")) << large;
  EXPECT_TRUE(small.starts_with("latency inside a node: ")) << small;
  EXPECT_EQ(explained(8, reduce(1)), "latency");
  EXPECT_TRUE(explained(256, [&] {
                return horingSend(values.data(), values.size(), horingFloat, 1, comms[0], nullptr);
              }).starts_with("links: this rank's are busy for "));
  for (horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST_F(Arguments, NullBuffersAreNamed) {
  EXPECT_TRUE(refuses(allReduce(nullptr, data_, 4), horingInvalidArgument, "sendbuff"));
  EXPECT_TRUE(refuses(allReduce(data_, nullptr, 4), horingInvalidArgument, "recvbuff"));
  EXPECT_EQ(allReduce(nullptr, nullptr, 0), horingSuccess) << "a count of 0 needs no buffers";
}

TEST_F(Arguments, UnknownTypesAndOperationsAreNamed) {
  EXPECT_TRUE(refuses(allReduce(data_, data_, 4, 12), horingInvalidArgument, "datatype is 12"));
  EXPECT_TRUE(refuses(allReduce(data_, data_, 4, -1), horingInvalidArgument, "datatype is -1"));
  EXPECT_TRUE(refuses(allReduce(data_, data_, 4, horingFloat, 5), horingInvalidArgument, "op is 5"));
  EXPECT_TRUE(refuses(allReduce(data_, data_, 4, horingFloat, -1), horingInvalidArgument, "op is -1"));
  EXPECT_TRUE(refuses(allReduce(data_, data_, 4, horingInt, horingBitXor + 1), horingInvalidArgument,
                      "op is 268435459"));
}

TEST_F(Arguments, BitwiseOperationsAreForIntegers) {
  for (const int op : {horingBitAnd, horingBitOr, horingBitXor}) {
    EXPECT_TRUE(refuses(allReduce(data_, data_, 4, horingFloat, op), horingInvalidArgument, "float32"));
    EXPECT_TRUE(
        refuses(allReduce(data_, data_, 4, horingFloat8e5m2, op), horingInvalidArgument, "float8e5m2"));
    EXPECT_HORING(allReduce(data_, data_, 4, horingUint8, op));
  }
}

TEST_F(Arguments, StreamsAreRefused) {
  EXPECT_TRUE(refuses(horingAllReduce(data_, data_, 4, horingFloat, horingSum, comm_, data_),
                      horingInvalidUsage, "stream"));
}

TEST_F(Arguments, CountsThatCannotBeAreRefused) {
  EXPECT_TRUE(refuses(allReduce(data_, data_, SIZE_MAX / 2), horingInvalidArgument, "count is"));
  EXPECT_TRUE(refuses(allReduce(data_, data_, SIZE_MAX), horingInvalidArgument, "count is"));
}

TEST_F(Arguments, PartialOverlapAndMisalignmentAreRefused) {
  EXPECT_TRUE(refuses(allReduce(data_, data_ + 1, 8), horingInvalidArgument, "overlap"));
  EXPECT_TRUE(refuses(allReduce(reinterpret_cast<char*>(data_) + 1, data_ + 32, 8), horingInvalidArgument,
                      "sendbuff is not aligned"));
  EXPECT_EQ(allReduce(data_, data_ + 8, 8), horingSuccess) << "neighbours do not overlap";
}

TEST_F(Arguments, RefusedCallsLoseNothing) {
  data_[0] = 5.0f;
  EXPECT_NE(allReduce(data_, nullptr, 4), horingSuccess);
  horingResult_t sticky = horingInternalError;
  ASSERT_HORING(horingCommGetAsyncError(comm_, &sticky));
  EXPECT_EQ(sticky, horingSuccess);
  EXPECT_EQ(allReduce(data_, data_, 4), horingSuccess);
  EXPECT_EQ(data_[0], 5.0f);
}

TEST(InitRank, NamesWhatIsWrong) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRank(nullptr, 1, id, 0), horingInvalidArgument, "comm"));
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 0, id, 0), horingInvalidArgument, "nranks is 0"));
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 2, id, 2), horingInvalidArgument, "rank is 2"));
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 2, id, -1), horingInvalidArgument, "rank is -1"));
  std::memset(&id, 7, sizeof id);
  EXPECT_EQ(horingCommInitRank(&comm, 1, id, 0), horingInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST(InitRank, RefusesWrongValuesInTheEnvironmentAndWarnsOfUnknownNames) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  {
    Setting wrong("HORING_ALGO", "quantum");
    EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, id, 0), horingInvalidArgument, "HORING_ALGO=quantum"));
  }
  const Setting unknown("HORING_SLICE", "8");
  testing::internal::CaptureStderr();
  EXPECT_HORING(horingCommInitRank(&comm, 1, id, 0));
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("did you mean HORING_SLICE_BYTES?"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("HORING_SLICE "), printed.rfind("HORING_SLICE ")) << "once: " << printed;
  EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
