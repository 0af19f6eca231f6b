#include "comm/progress/waiter.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

constexpr int64_t kMicrosecond = 1000;
constexpr int64_t kMillisecond = 1'000'000;

// A waiter with a simulated clock, in which each of its yields takes as long as the test sets.
class Wait {
 public:
  explicit Wait(WaitPolicy policy) : waiter_(policy) {}

  bool blocks() { return waiter_.idle(now_ns_) == Waiter::Step::kBlock; }
  void pass(int64_t ns) { now_ns_ += ns; }
  void progressed() { waiter_.progressed(); }
  // How often it looks again at once before it asks for the time; 1000: ever.
  int quickLooks() {
    int looks = 0;
    while (looks < 1000 && waiter_.looksAgain()) ++looks;
    return looks;
  }
  // One wait of a yield of so long. False: it wants to block instead.
  bool yields(int64_t ns) {
    progressed();
    if (blocks()) return false;
    pass(ns);
    blocks();
    return true;
  }
  // How long after now it yields again, to the millisecond.
  int64_t msUntilYield() {
    for (int64_t ms = 0; ms < 1000; ++ms, pass(kMillisecond)) {
      progressed();
      if (!blocks()) return ms;
    }
    return -1;
  }

 private:
  Waiter waiter_;
  int64_t now_ns_ = 1;
};

TEST(Waiter, SpinsYieldsAndBlocks) {
  Wait wait({.spin_ns = 20 * kMicrosecond, .yield_ns = 500 * kMicrosecond});
  EXPECT_FALSE(wait.blocks());
  wait.pass(519 * kMicrosecond);
  EXPECT_FALSE(wait.blocks());
  wait.pass(2 * kMicrosecond);
  EXPECT_TRUE(wait.blocks());
  wait.progressed();
  EXPECT_FALSE(wait.blocks());
}

TEST(Waiter, LooksAgainAtOnceForAWhileIfEveryRankHasACore) {
  Wait wait({.spin_ns = 20 * kMicrosecond, .yield_ns = 500 * kMicrosecond});
  const int looks = wait.quickLooks();
  EXPECT_GT(looks, 0);
  EXPECT_LT(looks, 1000);
  EXPECT_EQ(wait.quickLooks(), 0) << "it is the same wait";
  wait.progressed();
  EXPECT_EQ(wait.quickLooks(), looks);
  EXPECT_EQ(Wait({.spin_ns = 0, .yield_ns = 500 * kMicrosecond}).quickLooks(), 0) << "others need the core";
}

TEST(Waiter, DoesNotYieldToOtherPrograms) {
  Wait wait({.spin_ns = 0, .yield_ns = 500 * kMicrosecond});
  EXPECT_TRUE(wait.yields(10 * kMicrosecond));
  EXPECT_TRUE(wait.yields(3 * kMillisecond));
  EXPECT_FALSE(wait.yields(0)) << "that was the turn of another program";
  EXPECT_EQ(wait.msUntilYield(), 2);
}

TEST(Waiter, WaitsLongerForProgramsThatStay) {
  Wait wait({.spin_ns = 0, .yield_ns = 500 * kMicrosecond});
  for (int64_t ms = 2; ms <= 128; ms *= 2) {
    ASSERT_TRUE(wait.yields(3 * kMillisecond));
    EXPECT_EQ(wait.msUntilYield(), ms);
  }
  ASSERT_TRUE(wait.yields(3 * kMillisecond));
  EXPECT_EQ(wait.msUntilYield(), 128) << "no longer than that";
}

TEST(Waiter, ForgetsProgramsThatLeft) {
  Wait wait({.spin_ns = 0, .yield_ns = 500 * kMicrosecond});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(wait.yields(3 * kMillisecond));
    EXPECT_EQ(wait.msUntilYield(), 2 << i);
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(wait.yields(900 * kMicrosecond));
  ASSERT_TRUE(wait.yields(3 * kMillisecond));
  EXPECT_EQ(wait.msUntilYield(), 2) << "this may be another one";
}

}  // namespace
}  // namespace horing
