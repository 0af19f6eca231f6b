#include "transport/sent_messages.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

struct Note {
  uint16_t way = kNoWay;
  bool is_sent = false;
};
constexpr auto kNever = [](const Note&) { return false; };
constexpr auto kIgnore = [](const Note&) {};

// Eight slots, six messages: by ways 0 and 1 in turns, all sent but for the last two.
SentMessages<Note> sixMessages() {
  SentMessages<Note> sent(8);
  for (uint16_t i = 0; i < 6; ++i) sent.post({.way = static_cast<uint16_t>(i % 2)});
  for (uint64_t i = 0; i < 4; ++i) sent.noteSent(i);
  return sent;
}

std::vector<uint64_t> sentAgain(SentMessages<Note>& sent, size_t way, const ChannelState& theirs) {
  std::vector<uint64_t> again;
  EXPECT_TRUE(sent.settle(way, theirs, [&](uint64_t sequence) { again.push_back(sequence); }));
  return again;
}

TEST(SentMessages, TakeSlotsUntilTheyAreReleased) {
  SentMessages<Note> sent(2);
  sent.post({});
  EXPECT_FALSE(sent.full());
  sent.post({});
  EXPECT_TRUE(sent.full());
  sent.noteSent(0);
  EXPECT_TRUE(sent.takeCredit(1, kNever, kIgnore));
  EXPECT_FALSE(sent.full());
  EXPECT_FALSE(sent.allSent());
  sent.noteSent(1);
  EXPECT_TRUE(sent.allSent());
}

TEST(SentMessages, AreReleasedOnceEachAndOnlyIfTheyWereSent) {
  SentMessages<Note> sent = sixMessages();
  int released = 0;
  const auto count = [&](const Note&) { ++released; };
  EXPECT_TRUE(sent.takeCredit(3, kNever, count));
  EXPECT_TRUE(sent.takeCredit(2, kNever, count)) << "stale";
  EXPECT_EQ(released, 3);
  EXPECT_FALSE(sent.takeCredit(7, kNever, count)) << "never posted";
  EXPECT_FALSE(sent.takeCredit(5, kNever, count)) << "never sent";
  EXPECT_EQ(sent.released(), 4u);
  // Unless it left by a way that broke afterwards.
  EXPECT_TRUE(sent.takeCredit(
      5, [](const Note& note) { return note.way == 0; }, count));
  EXPECT_EQ(released, 5);
}

TEST(SentMessages, AreSentAgainWhereThePeerLacksThem) {
  SentMessages<Note> sent = sixMessages();
  sent.wayBroke(0);
  EXPECT_FALSE(sent.at(0).is_sent);
  EXPECT_TRUE(sent.at(1).is_sent) << "another way";
  EXPECT_EQ(sentAgain(sent, 0, {.released = 0, .received = {0b000101, 0}}), (std::vector<uint64_t>{4}));
  EXPECT_TRUE(sent.at(0).is_sent && sent.at(2).is_sent) << "they had come";
  // Way 1 is lost without a report: unconfirmed messages count as unsent again.
  EXPECT_EQ(sentAgain(sent, 1, {.released = 1, .received = {0b1, 0}}), (std::vector<uint64_t>{3, 5}));
  for (const uint64_t sequence : {3, 4, 5}) sent.noteSent(sequence);
  EXPECT_TRUE(sent.allSent());
}

TEST(SentMessages, CannotHaveComeIfTheyWereNeverPosted) {
  SentMessages<Note> sent = sixMessages();
  const auto never = [](uint64_t) { ADD_FAILURE(); };
  EXPECT_FALSE(sent.settle(0, {.released = 0, .received = {0b1000000, 0}}, never));
}

}  // namespace
}  // namespace horing
