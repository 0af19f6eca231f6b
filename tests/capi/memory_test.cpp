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

}  // namespace
