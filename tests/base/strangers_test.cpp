#include "base/strangers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace horing {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// Which have sent something, and which were dropped.
class StrangersTest : public testing::Test {
 protected:
  StrangerActions actions() {
    return {.hear = [this](int fd) { return hear(fd); },
            .drop =
                [this](int fd, const std::string& why) {
                  EXPECT_TRUE(strangers_.remove(fd));
                  dropped_.push_back(fd);
                  why_ = why;
                }};
  }
  virtual bool hear(int fd) { return spoke_.contains(fd); }
  void add(int fd, int64_t now_ns = 0) { strangers_.admit(fd, now_ns, actions()); }
  bool makeRoom() { return strangers_.makeRoom(actions(), "made up"); }

  Strangers strangers_{100};
  std::set<int> spoke_;
  std::vector<int> dropped_;
  std::string why_;
};

TEST_F(StrangersTest, TheOldestSilentOneMakesRoom) {
  for (const int fd : {7, 3, 5}) add(fd);
  spoke_ = {7};
  EXPECT_TRUE(makeRoom());
  EXPECT_EQ(dropped_, std::vector{3});
  EXPECT_EQ(why_, "made up");
  spoke_ = {7, 5};
  EXPECT_TRUE(makeRoom());
  EXPECT_EQ(dropped_, (std::vector{3, 7})) << "all have spoken";
  EXPECT_EQ(strangers_.size(), 1u);
}

class ProvenStrangersTest : public StrangersTest {
 protected:
  bool hear(int fd) override {
    asked_.push_back(fd);
    if (fd == 3) strangers_.remove(fd);
    return fd == 7;
  }
  std::vector<int> asked_;
};

TEST_F(ProvenStrangersTest, MakeRoomByProvingTheKey) {
  EXPECT_FALSE(makeRoom()) << "there is none";
  for (const int fd : {7, 3, 5}) add(fd);
  EXPECT_TRUE(makeRoom());
  EXPECT_EQ(asked_, (std::vector<int>{7, 3}));
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(StrangersTest, HaveADeadlineEach) {
  EXPECT_EQ(strangers_.deadlineNs(), INT64_MAX);
  add(3);
  add(4, 10 * kMillisecond);
  EXPECT_EQ(strangers_.deadlineNs(), 100 * kMillisecond);
  strangers_.expire(100 * kMillisecond - 1, actions());
  EXPECT_TRUE(dropped_.empty());
  strangers_.expire(100 * kMillisecond, actions());
  EXPECT_EQ(dropped_, std::vector{3});
  EXPECT_EQ(why_, "it did not prove the key within 100 ms");
  EXPECT_FALSE(strangers_.remove(3));
  strangers_.expire(110 * kMillisecond, actions());
  EXPECT_EQ(dropped_, (std::vector{3, 4}));
  EXPECT_TRUE(strangers_.empty());
}

TEST_F(StrangersTest, AreBounded) {
  for (size_t i = 0; i < kMaxStrangers; ++i) add(static_cast<int>(i));
  EXPECT_TRUE(dropped_.empty());
  add(static_cast<int>(kMaxStrangers));
  EXPECT_EQ(dropped_, std::vector{0});
  EXPECT_EQ(why_, "too many connections came after it before it proved the key");
  EXPECT_EQ(strangers_.size(), kMaxStrangers);
}

}  // namespace
}  // namespace horing
