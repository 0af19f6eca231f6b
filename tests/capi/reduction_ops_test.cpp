// Sums of inputs that are multiplied by a scalar: horingRedOpCreatePreMulSum and horingRedOpDestroy.
#include "ways.h"

namespace {

using ReductionOps = Collectives;

template <typename T>
horingRedOp_t preMulSum(horingComm_t comm, T scalar, horingDataType_t type) {
  horingRedOp_t op = horingSum;
  EXPECT_HORING(horingRedOpCreatePreMulSum(&op, &scalar, type, horingScalarHostImmediate, comm));
  return op;
}

horingResult_t reduceOne(horingComm_t comm, horingRedOp_t op, horingDataType_t type = horingFloat) {
  double value = 0;
  return horingAllReduce(&value, &value, 1, type, op, comm, nullptr);
}

TEST_P(ReductionOps, MultiplyEachInputByTheScalarOfItsRank) {
  constexpr size_t kCount = 1021;
  onEveryRank(ranks(), [&](int rank) {
    const horingRedOp_t op = preMulSum(comm(rank), 0.5f * static_cast<float>(rank + 1), horingFloat);
    std::vector<float> input(kCount * static_cast<size_t>(ranks())), output(input.size());
    for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
    const auto expected = [&](size_t i) {
      float sum = 0;
      for (int peer = 0; peer < ranks(); ++peer)
        sum += element(peer, i) * 0.5f * static_cast<float>(peer + 1);
      return sum;
    };
    ASSERT_HORING(
        horingReduceScatter(input.data(), output.data(), kCount, horingFloat, op, comm(rank), nullptr));
    for (size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(output[i], expected(static_cast<size_t>(rank) * kCount + i)) << "reduce-scatter, " << i;
    ASSERT_HORING(horingReduce(input.data(), output.data(), kCount, horingFloat, op, 0, comm(rank), nullptr));
    for (size_t i = 0; rank == 0 && i < kCount; ++i) ASSERT_EQ(output[i], expected(i)) << "reduce, " << i;
    ASSERT_HORING(
        horingAllReduce(input.data(), input.data(), input.size(), horingFloat, op, comm(rank), nullptr));
    for (size_t i = 0; i < input.size(); ++i) ASSERT_EQ(input[i], expected(i)) << "all-reduce, " << i;
    EXPECT_HORING(horingRedOpDestroy(op, comm(rank)));
  });
}

TEST_P(ReductionOps, WrapIntegersAround) {
  onEveryRank(ranks(), [&](int rank) {
    const horingRedOp_t op = preMulSum<int8_t>(comm(rank), -3, horingInt8);
    int8_t value = 100;
    ASSERT_HORING(horingAllReduce(&value, &value, 1, horingInt8, op, comm(rank), nullptr));
    EXPECT_EQ(value, static_cast<int8_t>(-300 * ranks()));
  });
}

TEST_P(ReductionOps, ReadAScalarAtOnceOrWhenTheyBegin) {
  onEveryRank(ranks(), [&](int rank) {
    double scalar = 2;
    horingRedOp_t late{}, at_once{};
    ASSERT_HORING(
        horingRedOpCreatePreMulSum(&at_once, &scalar, horingFloat64, horingScalarHostImmediate, comm(rank)));
    ASSERT_HORING(horingRedOpCreatePreMulSum(&late, &scalar, horingFloat64, horingScalarDevice, comm(rank)));
    EXPECT_NE(late, at_once);
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    // The scalar comes from the operation before on the same stream, and the operation is given back before it runs.
    double a = 1, b = 1;
    ASSERT_HORING(horingAllReduce(&scalar, &scalar, 1, horingFloat64, horingSum, comm(rank), stream));
    ASSERT_HORING(horingAllReduce(&a, &a, 1, horingFloat64, late, comm(rank), stream));
    ASSERT_HORING(horingAllReduce(&b, &b, 1, horingFloat64, at_once, comm(rank), stream));
    EXPECT_HORING(horingRedOpDestroy(late, comm(rank)));
    EXPECT_HORING(horingRedOpDestroy(at_once, comm(rank)));
    ASSERT_HORING(horingStreamSynchronize(stream));
    EXPECT_EQ(a, 2.0 * ranks() * ranks());
    EXPECT_EQ(b, 2.0 * ranks());
    EXPECT_HORING(horingStreamDestroy(stream));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ReductionOps, everyWay());

class OneRank : public testing::Test {
 protected:
  void SetUp() override { ASSERT_HORING(horingCommInitAll(&comm_, 1, nullptr)); }
  void TearDown() override { EXPECT_HORING(horingCommDestroy(comm_)); }
  void expectRefused(horingResult_t result, const std::string& named) {
    EXPECT_EQ(result, horingInvalidArgument);
    const std::string text = horingGetLastError(nullptr);
    EXPECT_NE(text.find(named), std::string::npos) << text;
  }
  horingComm_t comm_ = nullptr;
};

TEST_F(OneRank, RefusesOperationsThatAreNotItsOwn) {
  horingComm_t other = nullptr;
  ASSERT_HORING(horingCommInitAll(&other, 1, nullptr));
  const horingRedOp_t foreign = preMulSum(other, 2.0f, horingFloat),
                      own = preMulSum(comm_, 2.0f, horingFloat);
  EXPECT_NE(foreign, own);
  EXPECT_HORING(reduceOne(other, foreign));
  expectRefused(reduceOne(comm_, foreign), "no live operation of this communicator");
  expectRefused(horingRedOpDestroy(foreign, comm_), "no live operation of this communicator");
  EXPECT_HORING(reduceOne(comm_, own));
  EXPECT_HORING(horingCommDestroy(other));
  // The next communicator may have the handle of the one that ended, but not its operations.
  ASSERT_HORING(horingCommInitAll(&other, 1, nullptr));
  expectRefused(reduceOne(other, foreign), "no live operation of this communicator");
  EXPECT_HORING(horingCommDestroy(other));
}

TEST_F(OneRank, RefusesOperationsThatWereGivenBack) {
  const horingRedOp_t op = preMulSum(comm_, 2.0f, horingFloat);
  EXPECT_HORING(horingRedOpDestroy(op, comm_));
  const horingRedOp_t next = preMulSum(comm_, 2.0f, horingFloat);
  EXPECT_NE(op, next);
  expectRefused(reduceOne(comm_, op), "no live operation of this communicator");
  expectRefused(horingRedOpDestroy(op, comm_), "no live operation of this communicator");
  expectRefused(horingRedOpDestroy(horingSum, comm_), "no live operation of this communicator");
}

TEST_F(OneRank, RefusesAnotherTypeThanTheScalars) {
  const horingRedOp_t op = preMulSum(comm_, 2.0f, horingFloat);
  expectRefused(reduceOne(comm_, op, horingFloat64), "float32");
}

TEST_F(OneRank, RefusesScalarsThatAreNone) {
  horingRedOp_t op = horingSum;
  float scalar = 1;
  const auto create = [&](horingRedOp_t* to, void* from, int type, int residence) {
    return horingRedOpCreatePreMulSum(to, from, static_cast<horingDataType_t>(type),
                                      static_cast<horingScalarResidence_t>(residence), comm_);
  };
  expectRefused(create(nullptr, &scalar, horingFloat, 1), "op is NULL");
  expectRefused(create(&op, nullptr, horingFloat, 1), "scalar is NULL");
  expectRefused(create(&op, &scalar, horingNumTypes, 1), "datatype is 12");
  expectRefused(create(&op, &scalar, horingFloat, 2), "residence is 2");
  expectRefused(horingRedOpCreatePreMulSum(&op, &scalar, horingFloat, horingScalarDevice, nullptr), "comm");
  EXPECT_EQ(op, horingSum) << "nothing is written unless the call succeeds";
}

TEST_F(OneRank, HasAsManyOperationsAsTheLimit) {
  std::vector<horingRedOp_t> ops;
  for (int i = 0; i < 65536; ++i) ops.push_back(preMulSum(comm_, 2.0f, horingFloat));
  horingRedOp_t more = horingSum;
  float scalar = 1;
  EXPECT_EQ(horingRedOpCreatePreMulSum(&more, &scalar, horingFloat, horingScalarHostImmediate, comm_),
            horingInvalidUsage);
  EXPECT_HORING(horingRedOpDestroy(ops[0], comm_));
  EXPECT_HORING(horingRedOpCreatePreMulSum(&more, &scalar, horingFloat, horingScalarHostImmediate, comm_));
}

}  // namespace
