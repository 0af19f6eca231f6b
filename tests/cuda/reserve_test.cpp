// Memory that the library has given back, and that the driver has not.
#include "cuda/reserve.h"

#include <gtest/gtest.h>

#include <optional>

#include "cuda/driver.h"
#include "fake_cuda/fake_cuda.h"

namespace horing {
namespace {

class Reserve : public testing::Test {
 protected:
  PinnedMemory pinned(size_t bytes) const { return PinnedMemory::allocate(gpu_, bytes).take(); }
  uint64_t kept() const { return CudaReserve::ofProcess().kept().pinned; }

  const test::FakeCuda cuda_;
  const std::unique_ptr<CudaDriver> driver_ = CudaDriver::ofProcess();
  const std::shared_ptr<const CudaDevice> gpu_ = CudaDevice::open(driver_->api().value(), 0).take();
};

TEST_F(Reserve, KeepsWhatIsGivenBackForTheNextWhileAnybodyHasSome) {
  const int live = cuda_.live();
  {
    const PinnedMemory user = pinned(1);
    std::optional<PinnedMemory> first = pinned(100'000);
    const std::byte* const at = first->data();
    first.reset();
    EXPECT_GE(kept(), 100'000u);
    EXPECT_EQ(cuda_.live(), live + 2);
    // No request may get far more than it asked for.
    const PinnedMemory small = pinned(10), again = pinned(100'001);
    EXPECT_EQ(again.data(), at);
    EXPECT_EQ(kept(), 0u);
    EXPECT_EQ(cuda_.live(), live + 3);
  }
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(Reserve, KeepsOfEachSizeNoMoreThanWasInUseAtOnce) {
  const PinnedMemory user = pinned(1);
  const auto takeOneAfterTheOther = [&](size_t step) {
    for (size_t bytes = 1; bytes <= size_t{1} << 20; bytes += step) (void)pinned(bytes);
    return kept();
  };
  const uint64_t first = takeOneAfterTheOther(999);
  // Eight sizes between two powers of two, 12.5 times the larger of these in all.
  EXPECT_LE(first, size_t{25} << 19);
  EXPECT_EQ(takeOneAfterTheOther(777), first);
}

TEST_F(Reserve, KeepsSomethingElseAsLong) {
  std::weak_ptr<int> other;
  {
    const PinnedMemory user = pinned(1);
    {
      const auto what = std::make_shared<int>(1);
      const CudaReserve::Use use(what), again(what);
      other = what;
    }
    EXPECT_FALSE(other.expired());
    EXPECT_EQ(other.use_count(), 1);
  }
  EXPECT_TRUE(other.expired());
}

TEST_F(Reserve, WaitsForNothingThatNeverComesBack) {
  const int live = cuda_.live();
  PinnedMemory lost = pinned(1);
  (void)pinned(1);
  EXPECT_EQ(cuda_.live(), live + 2) << "kept while somebody has some";
  lost.leak();
  (void)pinned(1);
  EXPECT_EQ(cuda_.live(), live + 1);
}

TEST_F(Reserve, ThatHasNothingIsTheDriversError) {
  const int live = cuda_.live();
  cuda_.fail("cuMemHostAlloc", 2);
  EXPECT_EQ(PinnedMemory::allocate(gpu_, 10).status().code(), Code::kUnhandledCudaError);
  cuda_.fail(nullptr, 0);
  (void)pinned(1);
  EXPECT_EQ(cuda_.live(), live);
}

}  // namespace
}  // namespace horing
