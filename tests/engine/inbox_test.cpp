// The matching of receives and messages with tags, and messages for which no receive waits yet.
#include "engine/host/inbox.h"

#include <gtest/gtest.h>

#include <cstring>

namespace horing {
namespace {

class InboxTest : public testing::Test {
 protected:
  static constexpr uint64_t kTag = 5, kOther = 6;

  Transfer receive(int from, uint64_t tag, std::vector<std::byte>& data) {
    return {.kind = Transfer::TaggedReceive{data.data(), tag, &source_}, .peer = from, .bytes = data.size()};
  }
  // A message of `bytes` bytes, each of this value.
  Transfer arriveAll(int from, uint64_t tag, size_t bytes, int value) {
    Result<std::optional<Transfer>> arriving = inbox_.arrive(from, tag, bytes);
    EXPECT_TRUE(arriving.ok() && arriving.value());
    Transfer arrived = *arriving.value();
    std::memset(arrived.output(), value, bytes);
    return arrived;
  }

  Inbox inbox_{0};
  int source_ = -1;
  std::vector<std::byte> first_ = std::vector<std::byte>(8), second_ = std::vector<std::byte>(8);
};

TEST_F(InboxTest, GivesAMessageToTheFirstReceiveThatNamesIt) {
  EXPECT_FALSE(inbox_.post(receive(3, kOther, second_)).value());
  EXPECT_FALSE(inbox_.post(receive(kAnyRank, kTag, first_)).value());
  EXPECT_FALSE(inbox_.post(receive(3, kTag, second_)).value());
  EXPECT_TRUE(inbox_.awaits(3));
  EXPECT_TRUE(inbox_.awaits(4)) << "one receives from any rank";
  const Transfer arrived = arriveAll(3, kTag, 8, 1);
  EXPECT_EQ(arrived.output(), first_.data());
  EXPECT_EQ(arrived.peer, 3);
  ASSERT_TRUE(inbox_.complete(arrived));
  EXPECT_EQ(source_, 3);
  EXPECT_FALSE(inbox_.awaits(4));
  EXPECT_EQ(inbox_.waitsFor(), std::vector<int32_t>{3});
  EXPECT_EQ(arriveAll(3, kTag, 8, 2).output(), second_.data());
}

TEST_F(InboxTest, KeepsMessagesInTheirOrder) {
  for (const int value : {1, 2}) EXPECT_FALSE(inbox_.complete(arriveAll(3, kTag, 8, value)));
  EXPECT_EQ(inbox_.memoryBytes(), 16u);
  EXPECT_FALSE(inbox_.post(receive(4, kTag, second_)).value()) << "it is from another rank";
  EXPECT_TRUE(inbox_.post(receive(kAnyRank, kTag, first_)).value());
  EXPECT_EQ(first_, std::vector<std::byte>(8, std::byte{1}));
  EXPECT_EQ(source_, 3);
  EXPECT_TRUE(inbox_.post(receive(3, kTag, first_)).value());
  EXPECT_EQ(first_, std::vector<std::byte>(8, std::byte{2}));
  EXPECT_EQ(inbox_.memoryBytes(), 0u);
}

TEST_F(InboxTest, HandsOverAMessageThatIsStillArriving) {
  const Transfer arriving = arriveAll(3, kTag, 8, 1);
  EXPECT_FALSE(inbox_.post(receive(3, kTag, first_)).value());
  EXPECT_NE(first_, std::vector<std::byte>(8, std::byte{1}));
  const std::optional<Transfer> received = inbox_.complete(arriving);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->output(), first_.data());
  EXPECT_EQ(first_, std::vector<std::byte>(8, std::byte{1}));
}

TEST_F(InboxTest, KeepsNoMoreThanItMay) {
  ASSERT_TRUE(inbox_.arrive(1, kTag, kMostKeptBytes - 10).value());
  EXPECT_FALSE(inbox_.arrive(1, kTag, 11).value());
  EXPECT_FALSE(inbox_.arrive(1, kTag, SIZE_MAX).value());
  EXPECT_TRUE(inbox_.arrive(1, kTag, 10).value());
  EXPECT_NE(inbox_.describe().find("67108864 bytes of messages with other tags"), std::string::npos);
}

TEST_F(InboxTest, NamesSizesThatDiffer) {
  EXPECT_FALSE(inbox_.post(receive(3, kTag, first_)).value());
  EXPECT_EQ(inbox_.arrive(3, kTag, 9).status().code(), Code::kInvalidUsage);
  ASSERT_TRUE(inbox_.arrive(3, kOther, 7).value());
  const Result<std::optional<int>> posted = inbox_.post(receive(3, kOther, first_));
  EXPECT_EQ(posted.status().code(), Code::kInvalidUsage);
  EXPECT_NE(posted.status().message().find("8 bytes with tag 6, and rank 3 sent 7"), std::string::npos);
}

}  // namespace
}  // namespace horing
