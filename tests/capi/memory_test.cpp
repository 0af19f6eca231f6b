// horingMemAlloc, horingMemFree, horingCommRegister, horingCommDeregister.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ranks.h"

namespace {

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_HORING(horingCommInitAll(&comm_, 1, nullptr));
    ASSERT_HORING(horingMemAlloc(&memory_, kBytes));
  }
  void TearDown() override {
    EXPECT_HORING(horingMemFree(memory_));
    if (comm_) {
      EXPECT_HORING(horingCommDestroy(comm_));
    }
  }
  static constexpr size_t kBytes = 5u << 20;
  horingComm_t comm_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(Memory, IsZeroedAndWritable) {
  const std::vector<char> zeros(kBytes, 0);
  EXPECT_EQ(std::memcmp(memory_, zeros.data(), kBytes), 0);
  std::memset(memory_, 1, kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory_) % 4096, 0u);
}

TEST_F(Memory, SizeZeroAndNullAreNothing) {
  void* nothing = memory_;
  EXPECT_HORING(horingMemAlloc(&nothing, 0));
  EXPECT_EQ(nothing, nullptr);
  EXPECT_HORING(horingMemFree(nullptr));
  EXPECT_HORING(horingCommDeregister(comm_, nullptr));
}

TEST_F(Memory, BadArgumentsAreRefused) {
  EXPECT_EQ(horingMemAlloc(nullptr, 4096), horingInvalidArgument);
  void* untouched = &comm_;
  EXPECT_EQ(horingMemAlloc(&untouched, SIZE_MAX), horingInvalidArgument);
  EXPECT_EQ(untouched, &comm_) << "nothing is written when a call fails";
  int ordinary = 0;
  EXPECT_EQ(horingMemFree(&ordinary), horingInvalidArgument);
  EXPECT_EQ(horingMemFree(static_cast<char*>(memory_) + 4096), horingInvalidArgument);
  void* handle = nullptr;
  EXPECT_EQ(horingCommRegister(comm_, nullptr, 1, &handle), horingInvalidArgument);
  EXPECT_EQ(horingCommRegister(comm_, memory_, 0, &handle), horingInvalidArgument);
  EXPECT_EQ(horingCommRegister(comm_, memory_, 1, nullptr), horingInvalidArgument);
  EXPECT_EQ(horingCommRegister(nullptr, memory_, 1, &handle), horingInvalidArgument);
  EXPECT_EQ(horingCommDeregister(comm_, &ordinary), horingInvalidArgument);
}

TEST_F(Memory, RegistrationTellsWhatIsGained) {
  std::vector<char> ordinary(100);
  void* handle = memory_;
  ASSERT_HORING(horingCommRegister(comm_, ordinary.data(), ordinary.size(), &handle));
  EXPECT_EQ(handle, nullptr) << "an ordinary buffer gains nothing";
  ASSERT_HORING(horingCommRegister(comm_, memory_, kBytes + 1, &handle));
  EXPECT_EQ(handle, nullptr) << "reaches beyond the memory";
  ASSERT_HORING(horingCommRegister(comm_, static_cast<char*>(memory_) + 100, kBytes - 100, &handle));
  ASSERT_NE(handle, nullptr);
  void* other = nullptr;
  ASSERT_HORING(horingCommRegister(comm_, memory_, kBytes, &other));
  EXPECT_NE(other, handle);
  const std::vector<horingComm_t> another = makeCommunicators(1, Meeting::kInitAll);
  void* foreign = nullptr;
  ASSERT_HORING(horingCommRegister(another[0], memory_, kBytes, &foreign));
  EXPECT_EQ(horingCommDeregister(comm_, foreign), horingInvalidArgument) << "of another communicator";
  EXPECT_HORING(horingCommDeregister(another[0], foreign));
  EXPECT_HORING(horingCommDestroy(another[0]));
  EXPECT_HORING(horingCommDeregister(comm_, handle));
  EXPECT_EQ(horingCommDeregister(comm_, handle), horingInvalidArgument) << "twice";
  ASSERT_HORING(horingCommDestroy(comm_));
  EXPECT_EQ(horingCommDeregister(comm_, other), horingInvalidArgument) << "its communicator has ended";
  comm_ = nullptr;
}

TEST_F(Memory, BelongsToTheProcessThatMadeIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    void* handle = nullptr;
    const bool right = horingMemFree(memory_) == horingInvalidUsage &&
                       horingCommRegister(comm_, memory_, 1, &handle) == horingInvalidUsage;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Collectives over memory that ranks share, over memory that they do not, and over mixtures, which all have to agree on.
class SharedCollectives : public testing::TestWithParam<Meeting> {
 protected:
  static constexpr int kRanks = 3;
  static constexpr size_t kCount = 100003;  // above the requested sizes, and a multiple of no slice
  static float element(int rank, size_t index) {
    return static_cast<float>((static_cast<size_t>(rank) * 31 + index * 7) % 101);
  }
  static float sumAt(size_t index) {
    float sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) sum += element(rank, index);
    return sum;
  }
};

// Memory of one rank for a test: a different mixture for each `round`.
class Buffer {
 public:
  Buffer(size_t elements, bool shared) : ordinary_(shared ? 0 : elements) {
    memory_ = ordinary_.data();
    if (shared) {
      EXPECT_EQ(horingMemAlloc(&memory_, elements * sizeof(float)), horingSuccess);
    }
    is_shared_ = shared;
  }
  ~Buffer() {
    if (is_shared_) {
      EXPECT_EQ(horingMemFree(memory_), horingSuccess);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() const { return static_cast<float*>(memory_); }

 private:
  std::vector<float> ordinary_;
  void* memory_ = nullptr;
  bool is_shared_ = false;
};

TEST_P(SharedCollectives, AreRightInAnyMixture) {
  const std::vector<horingComm_t> comms = makeCommunicators(kRanks, GetParam());
  onEveryRank(kRanks, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    for (int round = 0; round < 12; ++round) {
      // All share, then all but one, then none; buffers come and go.
      const bool shares = round % 4 == 3 ? false : round % 4 != 1 || rank != round % kRanks;
      const size_t offset = static_cast<size_t>(round * 7 + rank);
      Buffer send(kCount * kRanks + offset, shares), receive(kCount * kRanks, !shares);
      float* input = send.data() + offset;
      for (size_t i = 0; i < kCount * kRanks; ++i) input[i] = element(rank, i);
      ASSERT_HORING(horingAllReduce(input, receive.data(), kCount, horingFloat, horingSum, comm, nullptr));
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(receive.data()[i], sumAt(i)) << "round " << round << ", " << i;
      ASSERT_HORING(
          horingReduceScatter(input, receive.data(), kCount, horingFloat, horingSum, comm, nullptr));
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(receive.data()[i], sumAt(static_cast<size_t>(rank) * kCount + i)) << "round " << round;
      ASSERT_HORING(horingAllGather(input, receive.data(), kCount, horingFloat, comm, nullptr));
      for (size_t i = 0; i < kCount * kRanks; ++i)
        ASSERT_EQ(receive.data()[i], element(static_cast<int>(i / kCount), i % kCount)) << "round " << round;
      ASSERT_HORING(horingAllReduce(input, input, kCount, horingFloat, horingSum, comm, nullptr));
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(input[i], sumAt(i)) << "in place, round " << round;
    }
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

INSTANTIATE_TEST_SUITE_P(Ways, SharedCollectives, testing::Values(Meeting::kInitAll, Meeting::kInitRank));

}  // namespace
