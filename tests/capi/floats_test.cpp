// Results of floating point and of averages, as horing.h defines them, in any rounding mode of the calling thread.
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "ranks.h"

namespace {

// Small calls that repeat, messages that are cut into slices, and sizes between them.
constexpr size_t kCounts[] = {1, 7, 1000, 300'000};
constexpr Meeting kMeetings[] = {Meeting::kInitAll, Meeting::kInitRank};

// An all-reduce in which every element of rank r is values[r]; what each rank has then, and all of it is the same.
template <typename T>
std::vector<T> reduced(const std::vector<T>& values, horingDataType_t type, horingRedOp_t op, size_t count,
                       Meeting meeting) {
  const int ranks = static_cast<int>(values.size());
  const auto comms = makeCommunicators(ranks, meeting);
  std::vector<T> results(values.size());
  onEveryRank(ranks, [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    std::vector<T> data(count, values[me]);
    EXPECT_HORING(horingAllReduce(data.data(), data.data(), count, type, op, comms[me], nullptr));
    for (const T& each : data) ASSERT_EQ(each, data.front());
    results[me] = data.front();
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  return results;
}

template <typename T>
void expectReduced(const std::vector<T>& values, horingDataType_t type, horingRedOp_t op, T expected) {
  for (const Meeting meeting : kMeetings)
    for (const size_t count : kCounts)
      EXPECT_EQ(reduced(values, type, op, count, meeting), std::vector<T>(values.size(), expected)) << count;
}

TEST(Numbers, OverflowAsTheirFormatHasIt) {
  expectReduced<uint16_t>({0x7bff, 0x7bff}, horingFloat16, horingSum, 0x7c00);
  expectReduced<uint16_t>({0x7f7f, 0x7f7f}, horingBfloat16, horingSum, 0x7f80);
  expectReduced<uint8_t>({0x7b, 0x7b}, horingFloat8e5m2, horingSum, 0x7c);
  expectReduced<uint8_t>({0x7c, 0xfb}, horingFloat8e5m2, horingSum, 0x7c);  // infinity and a number
  expectReduced<uint8_t>({0x7e, 0x7e}, horingFloat8e4m3, horingSum, 0x7e);
}

TEST(Numbers, KeepTheSmallestOnes) {
  expectReduced<uint16_t>({1, 0, 1}, horingFloat16, horingSum, 2);
  expectReduced<uint32_t>({1, 0, 1}, horingFloat32, horingSum, 2);
  expectReduced<uint64_t>({1, 0, 1}, horingFloat64, horingSum, 2);
}

// Where a rank reads the other ranks' inputs in place nothing is rounded in between.
TEST(Averages, MayLoseTheSmallestNumbers) {
  for (const Meeting meeting : kMeetings)
    for (const size_t count : kCounts)
      for (const uint16_t each : reduced<uint16_t>({1, 1}, horingFloat16, horingAvg, count, meeting))
        EXPECT_LE(each, 1);
  const Setting reproducible("HORING_REPRODUCIBLE", "1");
  expectReduced<uint16_t>({1, 1}, horingFloat16, horingAvg, 0);
}

TEST(Averages, ScaleFloatsFirstAndLetIntegersWrap) {
  expectReduced<uint16_t>({0x7bff, 0x7bff}, horingFloat16, horingAvg, 0x7bff);
  expectReduced<uint8_t>({200, 200}, horingUint8, horingAvg, 72);
  expectReduced<int8_t>({-3, 0}, horingInt8, horingAvg, -1);
}

// One rank's thread has a different environment.
class Disturbed {
 public:
  Disturbed(bool is_disturbed, int rounding) {
    if (!is_disturbed) return;
    std::fesetround(rounding);
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, and take such inputs for zero
#endif
  }
};

TEST(FloatEnvironment, OfTheCallerDecidesNothing) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 4000;
  for (const Meeting meeting : kMeetings) {
    const auto comms = makeCommunicators(kRanks, meeting);
    std::vector<std::vector<float>> plain(kRanks), disturbed(kRanks);
    for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO})
      for (const size_t count : {size_t{1}, kCount})
        for (const auto op : {horingSum, horingAvg, horingProd}) {
          onEveryRank(kRanks, [&](int rank) {
            const auto me = static_cast<size_t>(rank);
            std::vector<float> data(count);
            for (size_t i = 0; i < count; ++i)
              data[i] = i % 5 == 4 ? static_cast<float>(rank + 1) * std::numeric_limits<float>::denorm_min()
                                   : 1.0f / static_cast<float>(rank + 3 + static_cast<int>(i));
            plain[me].assign(count, -1);
            disturbed[me].assign(count, -1);
            EXPECT_HORING(
                horingAllReduce(data.data(), plain[me].data(), count, horingFloat, op, comms[me], nullptr));
            const Disturbed environment(rank == 1, rounding);
            const int before = std::fegetround();
            EXPECT_HORING(horingAllReduce(data.data(), disturbed[me].data(), count, horingFloat, op,
                                          comms[me], nullptr));
            EXPECT_EQ(std::fegetround(), before) << "the caller's own is not back";
          });
          for (const auto& results : {plain, disturbed})
            for (const auto& result : results)
              EXPECT_EQ(std::memcmp(result.data(), plain[0].data(), count * sizeof(float)), 0)
                  << "rounding " << rounding << ", operation " << op << ", " << count << " elements";
        }
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  }
}

}  // namespace
