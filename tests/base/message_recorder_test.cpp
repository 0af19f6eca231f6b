#include "base/message_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace horing {
namespace {

constexpr size_t kEntries = 64;

RecordedMessage messageOf(uint64_t number) {
  return {.bytes = number * 3,
          .number = number * 5,
          .peer = static_cast<int32_t>(number % 7) - 1,
          .kind = static_cast<MessageKind>(number % 5),
          .type = static_cast<DataType>(number % kDataTypes),
          .has_tag = number % 2 == 1};
}

void expectSame(const RecordedMessage& a, const RecordedMessage& b) {
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.peer, b.peer);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.has_tag, b.has_tag);
}

TEST(MessageRecorder, KeepsTheLatestMessages) {
  MessageRecorder recorder(kEntries);
  EXPECT_TRUE(recorder.last().empty());
  EXPECT_FALSE(recorder.record(0));
  constexpr uint64_t kMessages = kEntries * 3 + 5;
  for (uint64_t number = 0; number < kMessages; ++number) EXPECT_NE(recorder.begin(messageOf(number)), 0u);
  EXPECT_EQ(recorder.begun(), kMessages);
  const std::vector<RecordedMessage> last = recorder.last();
  ASSERT_EQ(last.size(), kEntries);
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_EQ(last[i].sequence, kMessages - kEntries + i);
    expectSame(last[i], messageOf(last[i].sequence));
  }
  EXPECT_FALSE(recorder.record(4)) << "displaced long ago";
  EXPECT_FALSE(recorder.record(kMessages)) << "not recorded yet";
}

TEST(MessageRecorder, TellsWhatBecameOfEach) {
  MessageRecorder recorder(kEntries);
  recorder.setNow(10);
  const uint32_t first = recorder.begin({.peer = -1}), second = recorder.begin({.enqueued_ns = 3});
  EXPECT_EQ(recorder.record(0)->state, MessageState::kEnqueued);
  EXPECT_EQ(recorder.record(0)->enqueued_ns, 10);
  EXPECT_EQ(recorder.record(1)->enqueued_ns, 3) << "a group's";
  recorder.setNow(20);
  recorder.start(first);
  recorder.start(0);
  EXPECT_EQ(recorder.record(0)->state, MessageState::kStarted);
  recorder.setNow(30);
  recorder.start(first);
  recorder.end(first, 6);
  recorder.end(second);
  const RecordedMessage slow = *recorder.record(0), quick = *recorder.record(1);
  EXPECT_EQ(slow.state, MessageState::kComplete);
  EXPECT_EQ(slow.started_ns, 20);
  EXPECT_EQ(slow.ended_ns, 30);
  EXPECT_EQ(slow.peer, 6) << "it came from any rank";
  EXPECT_EQ(quick.state, MessageState::kComplete);
  EXPECT_EQ(quick.started_ns, 30);
  EXPECT_EQ(quick.ended_ns, 30);
  EXPECT_EQ(quick.peer, 0);
}

TEST(MessageRecorder, LeavesTheRecordThatDisplacedAnother) {
  MessageRecorder recorder(kEntries);
  recorder.setNow(7);
  const uint32_t displaced = recorder.begin(messageOf(1));
  EXPECT_TRUE(recorder.has(displaced));
  EXPECT_EQ(recorder.enqueuedNs(displaced), 7);
  for (size_t i = 0; i < kEntries; ++i) recorder.begin(messageOf(2));
  EXPECT_FALSE(recorder.has(displaced));
  EXPECT_EQ(recorder.enqueuedNs(displaced), 0);
  EXPECT_FALSE(recorder.has(0));
  recorder.start(displaced);
  recorder.end(displaced, 5);
  EXPECT_EQ(recorder.record(kEntries)->state, MessageState::kEnqueued);
  EXPECT_EQ(recorder.record(kEntries)->peer, messageOf(2).peer);
}

// As where a rank began to wait after the clock was last read for the recorder.
TEST(MessageRecorder, LetsNoMessageBeginAfterNow) {
  MessageRecorder recorder(kEntries);
  recorder.setNow(10);
  recorder.end(recorder.begin({.enqueued_ns = 15}));
  EXPECT_EQ(recorder.record(0)->enqueued_ns, 10);
  EXPECT_EQ(recorder.record(0)->ended_ns, 10);
}

TEST(MessageRecorder, ShowsOlderMessagesThatWaitBeforeTheLatest) {
  MessageRecorder recorder(kEntries);
  for (uint64_t number = 0; number < kEntries * 2; ++number) {
    const uint32_t message = recorder.begin(messageOf(number));
    if (number % 20 != 0) recorder.end(message);
  }
  std::vector<uint64_t> sequences;
  for (const RecordedMessage& record : recorder.lastAndOpen(3)) sequences.push_back(record.sequence);
  EXPECT_EQ(sequences, (std::vector<uint64_t>{80, 100, 120, 125, 126, 127}));
  EXPECT_EQ(recorder.lastAndOpen(kEntries).size(), kEntries);
}

TEST(MessageRecorder, LetsNoGroupDisplaceMostOthers) {
  const MessageRecorder recorder(kEntries);
  EXPECT_TRUE(recorder.recordsEach(kEntries / 8));
  EXPECT_FALSE(recorder.recordsEach(kEntries / 8 + 1));
}

TEST(MessageRecorder, RecordsNoMessageByItselfWhereOnlyWaitingOnesAreKept) {
  const MessageRecorder recorder(kEntries, MessageRecorder::Keeps::kWaiting);
  EXPECT_FALSE(recorder.keepsAll());
  EXPECT_FALSE(recorder.recordsEach(1));
}

TEST(MessageRecorder, ShowsTheLatestIfAskedForFew) {
  MessageRecorder recorder(kEntries);
  for (uint64_t number = 0; number < kEntries * 2; ++number) recorder.begin(messageOf(number));
  const std::vector<RecordedMessage> last = recorder.last(3);
  ASSERT_EQ(last.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(last[i].sequence, kEntries * 2 - 3 + i);
}

// The oldest record is the one that is displaced next.
TEST(MessageRecorder, ShowsWholeRecordsToAnotherThread) {
  MessageRecorder recorder(kEntries);
  std::atomic<bool> enough{false};
  std::thread writer([&] {
    for (uint64_t number = 0; !enough; ++number) recorder.end(recorder.begin(messageOf(number)));
  });
  int found = 0;
  for (int look = 0; look < 1'000'000 || found == 0; ++look) {
    const uint64_t end = recorder.begun();
    if (end < kEntries) continue;
    const uint64_t oldest = end - kEntries;
    if (const auto record = recorder.record(oldest)) {
      ++found;
      EXPECT_EQ(record->sequence, oldest);
      EXPECT_EQ(record->bytes, oldest * 3) << "torn after " << look << " looks";
      EXPECT_EQ(record->peer, messageOf(oldest).peer);
      EXPECT_EQ(record->state, MessageState::kComplete);
    }
  }
  enough = true;
  writer.join();
}

}  // namespace
}  // namespace horing
