#include "control/call_log.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

TEST(CallLog, SaysWhichMessagesItIsIn) {
  CallLog calls;
  EXPECT_EQ(calls.nowText(), "");
  calls.beginExchange();
  EXPECT_EQ(calls.nowText(), "sends and receives");
  MessageRecorder& messages = calls.messages();
  const uint32_t receive = messages.begin({.bytes = 8, .peer = 1, .kind = MessageKind::kReceive});
  EXPECT_EQ(calls.nowText(), "recv of 8 bytes from rank 1");
  const uint32_t send = messages.begin({.bytes = 5, .peer = 3});
  EXPECT_EQ(calls.nowText(), "recv of 8 bytes from rank 1, and 1 more message");
  const uint32_t group = messages.begin({.peer = 90, .kind = MessageKind::kGroup});
  EXPECT_EQ(calls.nowText(), "recv of 8 bytes from rank 1, and 2 more messages");
  messages.end(receive);
  messages.end(group);
  EXPECT_EQ(calls.nowText(), "send of 5 bytes to rank 3");
  messages.end(send);
  EXPECT_EQ(calls.nowText(), "sends and receives");
  calls.endExchange();
  EXPECT_EQ(calls.nowText(), "");
}

TEST(CallLog, SaysThatAnOldMessageWaits) {
  CallLog calls(0, 0, MessageRecorder::kEntriesOfTimeline);
  calls.beginExchange();
  MessageRecorder& messages = calls.messages();
  messages.begin({.bytes = 8, .peer = 1, .kind = MessageKind::kReceive});
  for (size_t i = 0; i < 2 * MessageRecorder::kUsualEntries; ++i) messages.end(messages.begin({.peer = 1}));
  EXPECT_EQ(calls.nowText(), "recv of 8 bytes from rank 1");
}

}  // namespace
}  // namespace horing
