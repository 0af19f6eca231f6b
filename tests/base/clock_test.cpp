#include "base/clock.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/waking_clock.h"

namespace horing {
namespace {

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const int64_t start = clock.nowNs();
  EXPECT_EQ(clock.nowNs(), start);
  clock.advanceNs(5);
  EXPECT_EQ(clock.nowNs(), start + 5);
}

TEST(SteadyClock, NeverRunsBackwards) {
  const SteadyClock clock;
  int64_t last = clock.nowNs();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = clock.nowNs();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(WakingClock, LeavesOutTheTimeInWhichTheProcessWasStopped) {
  constexpr int64_t kMs = 1'000'000;
  ManualClock manual;
  manual.advanceNs(5 * kMs);
  WakingClock clock(manual);
  const Deadline deadline = Deadline::after(clock, 1000);
  manual.advanceNs(100 * kMs);
  clock.woke(100);
  EXPECT_EQ(deadline.remainingMs(), 900);
  manual.advanceNs(10'000 * kMs);
  clock.woke(100);
  EXPECT_EQ(deadline.remainingMs(), 800) << "only the wait itself counts";
  manual.advanceNs(200 * kMs);
  clock.woke(0);
  EXPECT_EQ(deadline.remainingMs(), 600) << "late, as a busy thread is";
  manual.advanceNs(600 * kMs);
  clock.woke(600);
  EXPECT_TRUE(deadline.passed());
}

TEST(Deadline, PassesExactlyWhenItsTimeHasCome) {
  ManualClock clock;
  const Deadline deadline = Deadline::after(clock, 10);
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.remainingMs(), 10);
  clock.advanceNs(9'000'001);
  EXPECT_EQ(deadline.remainingMs(), 1) << "rounded up: a wait of this length does not end early";
  EXPECT_FALSE(deadline.passed());
  clock.advanceNs(999'999);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.remainingMs(), 0);
  clock.advanceNs(1'000'000'000);
  EXPECT_EQ(deadline.remainingMs(), 0);
}

TEST(Deadline, LimitsTheRemainderToAnInt) {
  const ManualClock clock;
  EXPECT_EQ(Deadline::after(clock, int64_t{1} << 40).remainingMs(), std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace horing
