#include "horing_check/time_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace horing::check {
namespace {

using Clock = std::chrono::steady_clock;

void exitWithSeven() {
  _exit(7);
}

TEST(TimeLimit, EndsTheProcessThatIsOverdue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        TimeLimit time_limit(Clock::now() - kExitedAfter, exitWithSeven);
        ::sleep(30);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(TimeLimit, LeavesAloneWhatEndsInTime) {
  { TimeLimit time_limit(Clock::now() + std::chrono::hours(1), exitWithSeven); }
  TimeLimit over(Clock::now() - kRevokedAfter, exitWithSeven);
  while (!over.isOver()) ::usleep(1000);
  over.add(nullptr);
}

}  // namespace
}  // namespace horing::check
