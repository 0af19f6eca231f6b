// Counts beyond 2^31 elements and buffers beyond 2^32 bytes. Only when asked for (`./tools/dev test --label large`, or
// HORING_TESTS_LARGE=1): they take 10 GB of memory.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>

#include "ranks.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = (size_t{1} << 31) + 5;
constexpr uint64_t kNeededKb = 10'000'000;

uint64_t availableKb() {
  std::ifstream facts("/proc/meminfo");
  for (std::string word; facts >> word;)
    if (word == "MemAvailable:") {
      uint64_t kb = 0;
      facts >> kb;
      return kb;
    }
  return 0;
}

// Differs for neighbours, and for i, i + 2^31 and i + 2^32.
int8_t element(size_t i, int rank) {
  return static_cast<int8_t>(i * 7 + (i >> 31) * 3 + static_cast<size_t>(rank) * 11);
}
int8_t sum(size_t i) {
  return static_cast<int8_t>(element(i, 0) + element(i, 1));
}

class Large : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* asked = std::getenv("HORING_TESTS_LARGE");
    if (!asked || std::string(asked) != "1") GTEST_SKIP() << "set HORING_TESTS_LARGE=1 to run it";
    if (availableKb() < kNeededKb) GTEST_SKIP() << "needs 10 GB of memory";
    comms_ = makeCommunicators(kRanks, Meeting::kInitRank);
  }
  void TearDown() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }

  // On every rank: a buffer of `bytes` with the rank's elements, then `call`, then elements from `from` on compared.
  template <typename Call, typename Check>
  void run(size_t bytes, Call call, Check check) {
    onEveryRank(kRanks, [&](int rank) {
      const std::unique_ptr<int8_t[]> buffer(new int8_t[bytes]);
      for (size_t i = 0; i < bytes; ++i) buffer[i] = element(i, rank);
      ASSERT_HORING(call(buffer.get(), rank, comms_[static_cast<size_t>(rank)]));
      check(buffer.get(), rank);
    });
  }

  std::vector<horingComm_t> comms_;
};

// The index of the first element that differs from `expected`, else kNone.
constexpr size_t kNone = std::numeric_limits<size_t>::max();
template <typename Expected>
size_t firstWrong(const int8_t* data, size_t count, Expected expected) {
  for (size_t i = 0; i < count; ++i)
    if (data[i] != expected(i)) return i;
  return kNone;
}

TEST_F(Large, AllReduce) {
  run(
      kCount,
      [](int8_t* buffer, int, horingComm_t comm) {
        return horingAllReduce(buffer, buffer, kCount, horingInt8, horingSum, comm, nullptr);
      },
      [](const int8_t* buffer, int) { EXPECT_EQ(firstWrong(buffer, kCount, sum), kNone); });
}

TEST_F(Large, ReduceScatter) {
  static_assert(kRanks * kCount > size_t{1} << 32);
  run(
      kRanks * kCount,
      [](int8_t* buffer, int rank, horingComm_t comm) {
        return horingReduceScatter(buffer, buffer + static_cast<size_t>(rank) * kCount, kCount, horingInt8,
                                   horingSum, comm, nullptr);
      },
      [](const int8_t* buffer, int rank) {
        const size_t first = static_cast<size_t>(rank) * kCount;
        EXPECT_EQ(firstWrong(buffer + first, kCount, [&](size_t i) { return sum(first + i); }), kNone);
      });
}

TEST_F(Large, AllGather) {
  run(
      kRanks * kCount,
      [](int8_t* buffer, int rank, horingComm_t comm) {
        return horingAllGather(buffer + static_cast<size_t>(rank) * kCount, buffer, kCount, horingInt8, comm,
                               nullptr);
      },
      [](const int8_t* buffer, int) {
        EXPECT_EQ(
            firstWrong(buffer, kRanks * kCount, [](size_t i) { return element(i, i < kCount ? 0 : 1); }),
            kNone);
      });
}

}  // namespace
