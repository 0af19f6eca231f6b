// What is recorded of messages between ranks in one thread.
#include <algorithm>

#include "point_to_point_ranks.h"

namespace horing {
namespace {

using Records = std::vector<RecordedMessage>;

class MessageRecords : public PointToPointRanks {
 protected:
  Records recordsOf(int rank) { return recorder(rank).last(); }
  // That group of messages, each way, of rank 0 and rank 1.
  void exchangeMany(size_t messages) {
    std::vector<std::vector<std::byte>> received(messages, std::vector<std::byte>(sent_.size()));
    std::vector<Transfer> sends, receives;
    for (size_t i = 0; i < messages; ++i) {
      sends.push_back(sendTo(1, sent_));
      receives.push_back(receiveFrom(0, received[i]));
    }
    ASSERT_TRUE(rank(0).begin(sends).ok());
    ASSERT_TRUE(rank(1).begin(receives).ok());
    ASSERT_TRUE(run());
    for (const auto& each : received) EXPECT_EQ(each, sent_);
  }

  const std::vector<std::byte> sent_ = pattern(24, 1);
};

TEST_F(MessageRecords, AreOfEachMessageWithItsPeerSizeTypeAndNumber) {
  make(2);
  std::vector<std::byte> received(24);
  Transfer send = sendTo(1, sent_);
  send.type = DataType::kFloat64;
  for (int round = 0; round < 3; ++round) {
    recorder(0).setNow(round + 1);
    ASSERT_TRUE(rank(0).begin(std::vector{send}).ok());
    ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, received)}).ok());
    ASSERT_TRUE(run());
  }
  const Records sends = recordsOf(0), receives = recordsOf(1);
  ASSERT_EQ(sends.size(), 3u);
  ASSERT_EQ(receives.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sends[i].kind, MessageKind::kSend);
    EXPECT_EQ(sends[i].peer, 1);
    EXPECT_EQ(sends[i].type, DataType::kFloat64);
    EXPECT_EQ(receives[i].kind, MessageKind::kReceive);
    EXPECT_EQ(receives[i].peer, 0);
    for (const RecordedMessage& each : {sends[i], receives[i]}) {
      EXPECT_EQ(each.bytes, 24u);
      EXPECT_EQ(each.number, i);
      EXPECT_FALSE(each.has_tag);
      EXPECT_EQ(each.state, MessageState::kComplete);
    }
    EXPECT_EQ(sends[i].enqueued_ns, static_cast<int64_t>(i + 1));
  }
}

// Of slots of 256 bytes there are three.
TEST_F(MessageRecords, ShowHowFarAMessageIs) {
  make(2);
  const auto large = pattern(256 * 10, 1);
  std::vector<std::byte> at_1(large.size()), small(8);
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, large), receiveFrom(1, small)}).ok());
  recorder(0).setNow(6);
  rank(0).poll();
  ASSERT_EQ(recordsOf(0).size(), 2u);
  EXPECT_EQ(recordsOf(0)[0].state, MessageState::kStarted);
  EXPECT_EQ(recordsOf(0)[0].started_ns, 6);
  EXPECT_EQ(recordsOf(0)[1].state, MessageState::kEnqueued) << "the peer has sent nothing";
  ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, at_1), sendTo(0, small)}).ok());
  ASSERT_TRUE(run());
  for (const RecordedMessage& each : recordsOf(0)) EXPECT_EQ(each.state, MessageState::kComplete);
}

TEST_F(MessageRecords, NameTheSenderOfAMessageFromAnyRankOnceItIsThere) {
  make(3);
  std::vector<std::byte> first(24), second(24), other(24);
  const auto receive = [](std::vector<std::byte>& data, uint64_t tag) {
    return Transfer{
        .kind = Transfer::TaggedReceive{data.data(), tag}, .peer = kAnyRank, .bytes = data.size()};
  };
  const Transfer send{.kind = Transfer::TaggedSend{sent_.data(), 7}, .peer = 0, .bytes = sent_.size()};
  rank(0).join(std::vector{receive(first, 7), receive(other, 8)}, 1);
  EXPECT_EQ(recordsOf(0)[0].peer, kAnyRank);
  for (const int from : {2, 1}) {
    rank(from).join(std::vector{send}, 1);
    for (int i = 0; i < 20; ++i)
      for (const int each : {0, 1, 2}) rank(each).poll();
  }
  rank(0).join(std::vector{receive(second, 7)}, 2);  // its message came before
  const Records records = recordsOf(0);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].peer, 2);
  EXPECT_EQ(records[0].state, MessageState::kComplete);
  EXPECT_EQ(records[1].peer, kAnyRank);
  EXPECT_EQ(records[1].number, 8u);
  EXPECT_EQ(records[1].state, MessageState::kEnqueued);
  EXPECT_EQ(records[2].peer, 1);
  EXPECT_EQ(records[2].state, MessageState::kComplete);
  for (const RecordedMessage& each : records) EXPECT_TRUE(each.has_tag);
  EXPECT_EQ(recordsOf(1).at(0).number, 7u);
}

TEST_F(MessageRecords, AreOfPutsSignalsAndWaits) {
  make(2);
  std::vector<std::byte> window(100);
  rank(1).openWindow(3, window.data(), window.size());
  rank(1).listen(std::vector{0});
  const Transfer put{.kind = Transfer::Put{sent_.data(), {3, 0}}, .peer = 1, .bytes = sent_.size()};
  const Transfer signal{.kind = Transfer::Put(), .peer = 1};
  const Transfer wait{.kind = Transfer::SignalWait{2}, .peer = 0};
  ASSERT_TRUE(rank(1).begin(std::vector{wait}).ok());
  EXPECT_EQ(recordsOf(1).at(0).state, MessageState::kEnqueued);
  ASSERT_TRUE(rank(0).begin(std::vector{put, signal}).ok());
  ASSERT_TRUE(run());
  const Records records = recordsOf(0);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].kind, MessageKind::kPut);
  EXPECT_EQ(records[0].bytes, sent_.size());
  EXPECT_EQ(records[1].kind, MessageKind::kSignal);
  for (const RecordedMessage& each : records) EXPECT_EQ(each.state, MessageState::kComplete);
  ASSERT_EQ(recordsOf(1).size(), 1u) << "what another rank puts is that rank's";
  EXPECT_EQ(recordsOf(1)[0].kind, MessageKind::kSignalWait);
  EXPECT_EQ(recordsOf(1)[0].peer, 0);
  EXPECT_EQ(recordsOf(1)[0].state, MessageState::kComplete);
}

TEST_F(MessageRecords, AreOfMessagesToItselfToo) {
  make(1);
  std::vector<std::byte> received(24);
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(0, sent_), receiveFrom(0, received)}).ok());
  ASSERT_TRUE(run());
  ASSERT_TRUE(rank(0).begin(std::vector{receiveFrom(0, received), sendTo(0, sent_)}).ok());
  ASSERT_TRUE(run());
  const Records records = recordsOf(0);
  ASSERT_EQ(records.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].state, MessageState::kComplete);
    EXPECT_EQ(records[i].number, i / 2);
  }
}

// So that it does not displace all others.
TEST_F(MessageRecords, AreOneOfALargeGroup) {
  constexpr size_t kLarge = MessageRecorder::kUsualEntries / 8 + 1;
  make(2);
  exchangeMany(1);
  exchangeMany(kLarge);
  exchangeMany(kLarge - 1);
  for (const int each : {0, 1}) {
    const Records records = recordsOf(each);
    ASSERT_EQ(records.size(), 1 + 1 + kLarge - 1);
    EXPECT_EQ(records[1].kind, MessageKind::kGroup);
    EXPECT_EQ(records[1].peer, static_cast<int32_t>(kLarge));
    EXPECT_EQ(records[1].bytes, kLarge * sent_.size());
    EXPECT_EQ(records[2].number, 1 + kLarge) << "those of the group count";
    for (const RecordedMessage& one : records) EXPECT_EQ(one.state, MessageState::kComplete);
  }
}

TEST_F(MessageRecords, NameThoseThatKeepALargeGroupWaiting) {
  constexpr size_t kLarge = 40, kMostShown = 32, kArrived = 5;
  make(2);
  std::vector<std::vector<std::byte>> received(kLarge, std::vector<std::byte>(24));
  std::vector<Transfer> receives;
  for (auto& each : received) receives.push_back(receiveFrom(0, each));
  recorder(1).setNow(3);
  ASSERT_TRUE(rank(1).begin(receives).ok());
  ASSERT_TRUE(rank(0).begin(std::vector<Transfer>(kArrived, sendTo(1, sent_))).ok());
  for (int i = 0; i < 40; ++i) {
    rank(0).poll();
    rank(1).poll();
  }
  ASSERT_EQ(recordsOf(1).size(), 1u);
  recorder(1).setNow(8);
  for (int again = 0; again < 3; ++again) rank(1).recordWaiting(5);
  const Records records = recordsOf(1);
  ASSERT_EQ(records.size(), 1 + kMostShown);
  EXPECT_EQ(records[0].state, MessageState::kEnqueued);
  for (size_t i = 0; i < kMostShown; ++i) {
    EXPECT_EQ(records[1 + i].kind, MessageKind::kReceive);
    EXPECT_EQ(records[1 + i].number, kArrived + i);
    EXPECT_EQ(records[1 + i].enqueued_ns, 3) << "as long as the group";
    EXPECT_EQ(records[1 + i].state, MessageState::kEnqueued);
  }
  ASSERT_TRUE(rank(0).begin(std::vector<Transfer>(kLarge - kArrived, sendTo(1, sent_))).ok());
  ASSERT_TRUE(run());
  for (const RecordedMessage& each : recordsOf(1)) EXPECT_EQ(each.state, MessageState::kComplete);
}

TEST_F(MessageRecords, OfLargeGroupsWithTagsEndWithTheirCalls) {
  constexpr size_t kLarge = 40;
  make(2);
  std::vector<std::vector<std::byte>> received(kLarge, std::vector<std::byte>(24));
  std::vector<Transfer> receives;
  for (size_t i = 0; i < kLarge; ++i)
    receives.push_back({.kind = Transfer::TaggedReceive{received[i].data(), i}, .peer = 0, .bytes = 24});
  rank(1).join(receives, 9);
  rank(1).recordWaiting(1);
  ASSERT_EQ(recordsOf(1).size(), 33u);
  EXPECT_EQ(recordsOf(1)[1].number, 0u);
  EXPECT_TRUE(recordsOf(1)[1].has_tag);
  for (size_t i = 0; i < kLarge; ++i) {
    const Transfer send{.kind = Transfer::TaggedSend{sent_.data(), i}, .peer = 1, .bytes = 24};
    rank(0).join(std::vector{send}, 1 + i);
  }
  for (int i = 0; i < 200; ++i) {
    rank(0).poll();
    rank(1).poll();
  }
  EXPECT_EQ(rank(1).takeFinished(), 9u);
  for (const RecordedMessage& each : recordsOf(1)) EXPECT_EQ(each.state, MessageState::kComplete);
}

TEST_F(MessageRecords, OfAGroupShowEachPeerThatIsWaitedFor) {
  make(3);
  std::vector<std::vector<std::byte>> received(41, std::vector<std::byte>(24));
  std::vector<Transfer> receives;
  for (size_t i = 0; i < 40; ++i) receives.push_back(receiveFrom(1, received[i]));
  receives.push_back(receiveFrom(2, received[40]));
  ASSERT_TRUE(rank(0).begin(receives).ok());
  rank(0).recordWaiting(1);
  const Records records = recordsOf(0);
  ASSERT_EQ(records.size(), 33u);
  EXPECT_EQ(std::ranges::count(records, 2, &RecordedMessage::peer), 1);
}

class WaitingMessages : public MessageRecords {
 protected:
  // Rank 1 waits for so many messages of rank 0, with tags from 0 on, each a call of its own.
  void receiveWithTags(uint64_t messages) {
    received_.resize(sent_.size());
    for (uint64_t tag = 0; tag < messages; ++tag)
      rank(1).join(
          std::vector{Transfer{
              .kind = Transfer::TaggedReceive{received_.data(), tag}, .peer = 0, .bytes = received_.size()}},
          1 + tag);
  }

 private:
  std::vector<std::byte> received_;
};

TEST_F(WaitingMessages, AreRecordedAnewWhenTheirRecordsAreDisplaced) {
  constexpr uint64_t kOpen = MessageRecorder::kUsualEntries + 50, kShown = 32;
  make(2);
  receiveWithTags(kOpen);
  recorder(1).setNow(5);
  for (int again = 0; again < 3; ++again) rank(1).recordWaiting(4);
  EXPECT_EQ(recorder(1).begun(), kOpen + kShown);
  const Records latest = recorder(1).last(kShown);
  for (size_t i = 0; i < kShown; ++i) {
    EXPECT_EQ(latest[i].number, i) << "the oldest";
    EXPECT_EQ(latest[i].enqueued_ns, 4) << "at the latest";
    EXPECT_EQ(latest[i].state, MessageState::kEnqueued);
  }
}

TEST_F(WaitingMessages, AreTheOnlyOnesThatAreRecordedWhereNobodyReadsTheOthers) {
  keeps_ = MessageRecorder::Keeps::kWaiting;
  make(2);
  exchangeMany(1);
  exchangeMany(MessageRecorder::kUsualEntries);
  for (const int each : {0, 1}) EXPECT_EQ(recorder(each).begun(), 0u);
  std::vector<std::byte> received(sent_.size());
  ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, received)}).ok());
  receiveWithTags(1);
  const Transfer wait{.kind = Transfer::SignalWait{1}, .peer = 0, .ticket = 9};
  rank(1).join(std::vector{wait}, 9);
  EXPECT_EQ(recorder(1).begun(), 0u);
  recorder(1).setNow(5);
  for (int again = 0; again < 3; ++again) rank(1).recordWaiting(4);
  const Records waiting = recordsOf(1);
  ASSERT_EQ(waiting.size(), 3u);
  EXPECT_EQ(waiting[0].number, 1 + MessageRecorder::kUsualEntries) << "all count";
  EXPECT_TRUE(waiting[1].has_tag);
  EXPECT_EQ(waiting[2].kind, MessageKind::kSignalWait);
  for (const RecordedMessage& each : waiting) {
    EXPECT_EQ(each.enqueued_ns, 4);
    EXPECT_EQ(each.state, MessageState::kEnqueued);
  }
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, sent_)}).ok());
  for (int i = 0; i < 20; ++i)
    for (const int each : {0, 1}) rank(each).poll();
  EXPECT_EQ(recordsOf(1)[0].state, MessageState::kComplete);
  EXPECT_EQ(recordsOf(1)[1].state, MessageState::kEnqueued);
}

}  // namespace
}  // namespace horing
