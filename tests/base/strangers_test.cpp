#include "base/strangers.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace horing {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

TEST(Strangers, GoForANewcomerTheOldestSilentOneFirst) {
  Strangers strangers;
  for (const int fd : {7, 3, 5}) strangers.add(fd, 0);
  const std::set<int> spoke{7};
  EXPECT_EQ(strangers.leastWelcome([&](int fd) { return spoke.contains(fd); }), 3);
  EXPECT_EQ(strangers.leastWelcome([](int) { return true; }), 7) << "all have spoken";
  EXPECT_EQ(strangers.size(), 3u) << "who closes the connection removes it";
}

TEST(Strangers, ThatHaveProvedTheKeyMeanwhileMakeRoomEnough) {
  Strangers strangers;
  for (const int fd : {7, 3, 5}) strangers.add(fd, 0);
  std::vector<int> asked;
  const auto one = strangers.leastWelcome([&](int fd) {
    asked.push_back(fd);
    if (fd == 3) strangers.remove(fd);
    return fd == 7;
  });
  EXPECT_EQ(one, std::nullopt);
  EXPECT_EQ(asked, (std::vector<int>{7, 3}));
  EXPECT_EQ(Strangers().leastWelcome([](int) { return false; }), std::nullopt);
}

TEST(Strangers, HaveADeadlineEach) {
  Strangers strangers(100);
  EXPECT_EQ(strangers.deadlineNs(), INT64_MAX);
  strangers.add(3, 0);
  strangers.add(4, 10 * kMillisecond);
  EXPECT_EQ(strangers.deadlineNs(), 100 * kMillisecond);
  EXPECT_EQ(strangers.overdue(100 * kMillisecond - 1), std::nullopt);
  EXPECT_EQ(strangers.overdue(100 * kMillisecond), 3);
  EXPECT_TRUE(strangers.remove(3));
  EXPECT_FALSE(strangers.remove(3));
  EXPECT_EQ(strangers.overdue(100 * kMillisecond), std::nullopt);
  EXPECT_EQ(strangers.overdue(110 * kMillisecond), 4);
}

TEST(Strangers, AreBounded) {
  Strangers strangers;
  for (size_t i = 0; i < kMaxStrangers; ++i) {
    EXPECT_FALSE(strangers.full());
    strangers.add(static_cast<int>(i), 0);
  }
  EXPECT_TRUE(strangers.full());
}

}  // namespace
}  // namespace horing
