// How a thread waits between looks.
#include "base/pause.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

TEST(Nap, LastsA32ndOfTheWaitSoFarWithinBounds) {
  EXPECT_EQ(napAfter(0).count(), 20);
  EXPECT_EQ(napAfter(3'200'000).count(), 100);
  EXPECT_EQ(napAfter(6'400'000).count(), 200);
  EXPECT_EQ(napAfter(60'000'000'000).count(), 200);
}

}  // namespace
}  // namespace horing
