#include "horing_check/curfew.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace horing::check {
namespace {

using CurfewClock = std::chrono::steady_clock;

void exitWithSeven() {
  _exit(7);
}

TEST(Curfew, EndsTheProcessThatIsOverdue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Curfew curfew(CurfewClock::now() - kExitedAfter, exitWithSeven);
        ::sleep(30);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(Curfew, LeavesAloneWhatEndsInTime) {
  { Curfew curfew(CurfewClock::now() + std::chrono::hours(1), exitWithSeven); }
  Curfew over(CurfewClock::now() - kRevokedAfter, exitWithSeven);
  while (!over.isOver()) ::usleep(1000);
  over.add(nullptr);
}

}  // namespace
}  // namespace horing::check
