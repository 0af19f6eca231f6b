// Puts, signals and waits for them, of several ranks in one thread.
#include <algorithm>

#include "point_to_point_ranks.h"

namespace horing {
namespace {

Transfer putTo(int peer, const std::vector<std::byte>& data, PutTarget target) {
  return {.kind = Transfer::Put{data.data(), target}, .peer = peer, .bytes = data.size()};
}
Transfer signalTo(int peer) {
  return {.kind = Transfer::Put(), .peer = peer};
}
Transfer waitFor(int peer, uint64_t signals) {
  return {.kind = Transfer::SignalWait{signals}, .peer = peer};
}

constexpr uint64_t kWindow = 7;
constexpr size_t kWindowBytes = 20'000, kMargin = 64;
constexpr std::byte kUntouched{0x5a};

// Rank 1 has a window, with a margin around it that nothing may touch.
class Puts : public PointToPointRanks {
 protected:
  void makeWithWindow(int ranks) {
    make(ranks);
    rank(1).openWindow(kWindow, memory_.data() + kMargin, kWindowBytes);
    const std::vector<int> peers{0, 2};
    rank(1).listen(std::span(peers).first(static_cast<size_t>(ranks - 1)));
  }
  std::byte* window() { return memory_.data() + kMargin; }
  bool isUntouched() const {
    return std::all_of(memory_.begin(), memory_.end(), [](std::byte byte) { return byte == kUntouched; });
  }
  void pollAll() {
    for (int i = 0; i < 40; ++i) {
      rank(0).poll();
      rank(1).poll();
    }
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(kWindowBytes + 2 * kMargin, kUntouched);
};

TEST_F(Puts, ArriveAtARankThatMakesNoCallForThem) {
  makeWithWindow(2);
  uint64_t offset = 3;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{10'000}}) {
    const auto data = pattern(bytes, static_cast<int>(bytes));
    ASSERT_TRUE(rank(1).begin({}).ok()) << "what else a rank does is no matter";
    ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, {kWindow, offset})}).ok());
    ASSERT_TRUE(run()) << bytes << ": " << rank(0).obstacle().text;
    ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 1)}).ok());
    ASSERT_TRUE(run()) << rank(1).obstacle().text;
    EXPECT_TRUE(std::equal(data.begin(), data.end(), window() + offset)) << bytes;
    offset += bytes;
  }
  EXPECT_EQ(window()[2], kUntouched);
  EXPECT_EQ(window()[offset], kUntouched);
}

TEST_F(Puts, FillAWindowToItsEnd) {
  makeWithWindow(2);
  const auto data = pattern(kWindowBytes, 1);
  ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, {kWindow, 0})}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 1)}).ok());
  ASSERT_TRUE(run());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), window()));
}

// Headers as a rank with damaged memory, or one that knows an older window, would send them.
TEST_F(Puts, WriteNothingOutsideOfAnOpenWindow) {
  struct Bad {
    PutTarget target;
    size_t bytes;
  };
  for (const Bad& bad :
       {Bad{{kWindow + 1, 0}, 8}, Bad{{0, 0}, 8}, Bad{{0, 8}, 0}, Bad{{kWindow, 0}, kWindowBytes + 1},
        Bad{{kWindow, kWindowBytes - 7}, 8}, Bad{{kWindow, kWindowBytes + 1}, 0},
        Bad{{kWindow, UINT64_MAX - 3}, 8}, Bad{{kWindow, uint64_t{1} << 63}, 8}}) {
    makeWithWindow(2);
    const auto data = pattern(bad.bytes, 1);
    ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, bad.target)}).ok());
    pollAll();
    const Status& status = rank(1).status();
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << bad.target.window << " + " << bad.target.offset;
    EXPECT_NE(status.message().find("rank 1 does not take a put of rank 0"), std::string::npos)
        << status.message();
    EXPECT_TRUE(isUntouched()) << bad.target.window << " + " << bad.target.offset;
    EXPECT_FALSE(rank(1).begin({}).ok()) << "the error stays";
    clear();
  }
}

TEST_F(Puts, SignalOnlyWithAnIndexThatTheirTargetCounts) {
  for (const bool is_put : {false, true}) {
    makeWithWindow(2);
    const auto data = pattern(8, 1);
    Transfer wrong = is_put ? putTo(1, data, {kWindow, 0}) : signalTo(1);
    std::get<Transfer::Put>(wrong.kind).signal = 1;
    ASSERT_TRUE(rank(0).begin(std::vector{wrong}).ok());
    pollAll();
    EXPECT_EQ(rank(1).status().code(), Code::kInvalidUsage);
    EXPECT_NE(rank(1).status().message().find("a signal of rank 0 with index 1"), std::string::npos)
        << rank(1).status().message();
    EXPECT_TRUE(isUntouched());
    clear();
  }
}

// A put of parts signals with its last one; a signal is never without.
TEST_F(Puts, MayBePartsThatDoNotSignal) {
  makeWithWindow(2);
  const auto data = pattern(800, 1);
  const std::vector<std::byte> first(data.begin(), data.begin() + 500), last(data.begin() + 500, data.end());
  Transfer part = putTo(1, first, {kWindow, 0});
  std::get<Transfer::Put>(part.kind).signal = Transfer::kNoSignal;
  ASSERT_TRUE(rank(0).begin(std::vector{part}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 1)}).ok());
  pollAll();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), window()));
  EXPECT_EQ(rank(1).obstacle().text, "0 of 1 signals from rank 0");
  ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, last, {kWindow, 500})}).ok());
  ASSERT_TRUE(run()) << rank(1).obstacle().text;
  EXPECT_TRUE(std::equal(data.begin(), data.end(), window()));
  Transfer nothing = signalTo(1);
  std::get<Transfer::Put>(nothing.kind).signal = Transfer::kNoSignal;
  ASSERT_TRUE(rank(0).begin(std::vector{nothing}).ok());
  pollAll();
  EXPECT_EQ(rank(1).status().code(), Code::kInvalidUsage);
}

TEST_F(Puts, AreNotMistakenForSignalsOfAnotherIndex) {
  makeWithWindow(2);
  const auto data = pattern(8, 1);
  ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, {kWindow, 0})}).ok());
  Transfer wait = waitFor(0, 1);
  std::get<Transfer::SignalWait>(wait.kind).signal = 1;
  ASSERT_TRUE(rank(1).begin(std::vector{wait}).ok());
  pollAll();
  EXPECT_FALSE(rank(1).done());
  EXPECT_EQ(rank(1).obstacle().text, "0 of 1 signals from rank 0 with index 1");
}

TEST_F(Puts, AreNotWrittenAfterTheirWindowWasClosed) {
  makeWithWindow(2);
  const auto data = pattern(5000, 1);
  ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, {kWindow, 0})}).ok());
  rank(0).poll();
  ASSERT_TRUE(rank(1).closeWindow(kWindow).ok()) << "nothing of it has been taken";
  pollAll();
  EXPECT_EQ(rank(1).status().code(), Code::kInvalidUsage);
  EXPECT_TRUE(isUntouched());
}

TEST_F(Puts, AreAnErrorWhereTheirWindowIsClosedHalfway) {
  makeWithWindow(2);
  const auto data = pattern(5000, 1);
  ASSERT_TRUE(rank(0).begin(std::vector{putTo(1, data, {kWindow, 0})}).ok());
  rank(0).poll();
  rank(1).poll();
  const Status closed = rank(1).closeWindow(kWindow);
  EXPECT_EQ(closed.code(), Code::kInvalidUsage);
  EXPECT_NE(closed.message().find("a put of rank 0 arrives in it, 512 of 5000 bytes"), std::string::npos)
      << closed.message();
}

TEST_F(Puts, PassMessagesWithTags) {
  makeWithWindow(2);
  const auto tagged = pattern(700, 1), data = pattern(900, 2);
  Transfer send = sendTo(1, tagged);
  send.kind = Transfer::TaggedSend{tagged.data(), 5};
  ASSERT_TRUE(rank(0).begin(std::vector{send, putTo(1, data, {kWindow, 0})}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 1)}).ok());
  ASSERT_TRUE(run()) << rank(1).obstacle().text;
  EXPECT_TRUE(std::equal(data.begin(), data.end(), window()));
  std::vector<std::byte> received(700);
  Transfer receive = receiveFrom(0, received);
  receive.kind = Transfer::TaggedReceive{received.data(), 5};
  ASSERT_TRUE(rank(1).begin(std::vector{receive}).ok());
  ASSERT_TRUE(run());
  EXPECT_EQ(received, tagged);
}

TEST_F(Puts, SignalOnceEach) {
  makeWithWindow(3);
  ASSERT_TRUE(rank(0).begin(std::vector{signalTo(1), signalTo(1), signalTo(1)}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 2), waitFor(0, 2), waitFor(2, 1)}).ok());
  EXPECT_FALSE(run());
  EXPECT_TRUE(rank(0).done());
  EXPECT_FALSE(rank(1).done());
  EXPECT_EQ(rank(1).obstacle().text, "1 of 2 signals from rank 0; 0 of 1 signals from rank 2");
  EXPECT_EQ(rank(1).obstacle().ranks, (std::vector<int32_t>{0, 2}));
  ASSERT_TRUE(rank(2).begin(std::vector{signalTo(1)}).ok());
  EXPECT_FALSE(run());
  ASSERT_TRUE(rank(0).begin(std::vector{signalTo(1)}).ok());
  EXPECT_TRUE(run()) << rank(1).obstacle().text;
}

// As many as a flow keeps, and more.
TEST_F(Puts, KeepTheirOrder) {
  makeWithWindow(2);
  std::vector<std::vector<std::byte>> data;
  std::vector<Transfer> puts;
  for (int i = 0; i < 600; ++i) data.push_back(pattern(20, i));
  for (size_t i = 0; i < data.size(); ++i) puts.push_back(putTo(1, data[i], {kWindow, i % 7 * 20}));
  ASSERT_TRUE(rank(0).begin(puts).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, puts.size())}).ok());
  ASSERT_TRUE(run()) << rank(1).obstacle().text;
  for (size_t i = data.size() - 7; i < data.size(); ++i)
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), window() + i % 7 * 20)) << i;
}

// Both send more than fits on the way before either waits.
TEST_F(Puts, AreTakenWhereARankSignals) {
  make(2);
  const std::vector<Transfer> to_1(200, signalTo(1)), to_0(200, signalTo(0));
  ASSERT_TRUE(rank(0).begin(to_1).ok());
  ASSERT_TRUE(rank(1).begin(to_0).ok());
  ASSERT_TRUE(run()) << rank(0).obstacle().text << "; " << rank(1).obstacle().text;
  ASSERT_TRUE(rank(0).begin(std::vector{waitFor(1, 200)}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{waitFor(0, 200)}).ok());
  EXPECT_TRUE(run());
}

TEST_F(Puts, ReachTheirOwnRank) {
  makeWithWindow(2);
  const auto data = pattern(3000, 1);
  ASSERT_TRUE(rank(1).begin(std::vector{putTo(1, data, {kWindow, 10}), waitFor(1, 2), signalTo(1)}).ok());
  EXPECT_TRUE(rank(1).done()) << rank(1).obstacle().text;
  EXPECT_TRUE(std::equal(data.begin(), data.end(), window() + 10));
}

TEST_F(Puts, CompleteTheirTickets) {
  makeWithWindow(2);
  const auto data = pattern(3000, 1);
  rank(1).join(std::vector{waitFor(0, 1)}, 11);
  rank(1).join(std::vector{waitFor(0, 1), signalTo(1)}, 12);
  rank(0).join(std::vector{putTo(1, data, {kWindow, 0})}, 21);
  pollAll();
  EXPECT_EQ(rank(0).takeFinished(), 21u);
  EXPECT_EQ(rank(1).takeFinished(), 11u);
  EXPECT_EQ(rank(1).takeFinished(), 0u);
  rank(0).join(std::vector{signalTo(1)}, 22);
  pollAll();
  EXPECT_EQ(rank(1).takeFinished(), 12u);
}

}  // namespace
}  // namespace horing
