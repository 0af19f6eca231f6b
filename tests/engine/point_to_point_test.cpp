// Sends and receives of several ranks in one thread, over the loopback transport.
#include <algorithm>
#include <iterator>
#include <utility>

#include "point_to_point_ranks.h"

namespace horing {
namespace {

// For host memory: copies at most a hundred bytes, and every other time nothing; writes arrive when it settles.
class SlowCopier final : public MemoryCopier {
 public:
  Status copy(std::byte* to, const std::byte* from, size_t bytes, Ends) override {
    std::copy_n(from, bytes, to);
    return {};
  }
  void begin(size_t flows) override { written_.assign(flows, {}); }
  Result<size_t> tryRead(size_t, std::byte* to, const std::byte* from, size_t bytes, size_t left) override {
    EXPECT_GE(left, bytes);
    if (fails) return makeStatus(Code::kSystemError, "no copy");
    if (is_stuck || (++turn_ % 2 != 0)) return size_t{0};
    bytes = std::min<size_t>(bytes, 100);
    std::copy_n(from, bytes, to);
    return bytes;
  }
  Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                          size_t left) override {
    std::vector<std::byte> values(bytes);
    HORING_ASSIGN(const size_t moved, tryRead(flow, values.data(), from, bytes, left));
    values.resize(moved);
    written_[flow].push_back({to, std::move(values)});
    return moved;
  }
  Result<bool> trySettle(size_t flow) override {
    if (fails) return makeStatus(Code::kSystemError, "no copy");
    if (!written_[flow].empty() && (is_stuck || ++turn_ % 2 != 0)) return false;
    for (const auto& [to, values] : written_[flow]) std::copy(values.begin(), values.end(), to);
    written_[flow].clear();
    return true;
  }

  bool fails = false;
  bool is_stuck = false;

 private:
  size_t turn_ = 0;
  std::vector<std::vector<std::pair<std::byte*, std::vector<std::byte>>>> written_;  // of each flow
};

TEST_F(PointToPointRanks, ExchangeMessagesOfEverySize) {
  make(2);
  exchange({0, 1, 255, 256, 257, 10'000});
}

TEST_F(PointToPointRanks, ExchangeMessagesOfEverySizePastTheCaches) {
  make(2, kLargeSlotBytes, {.far_readers = true});
  exchange({1, kFarBytes - 1, kFarBytes, kFarBytes + 1, kLargeSlotBytes + kFarBytes + 77});
}

TEST_F(PointToPointRanks, MeetInTheOrderOfTheirCallsAcrossGroups) {
  make(2);
  const auto first = pattern(700, 1), second = pattern(300, 2), third = pattern(5, 3);
  std::vector<std::byte> got_first(700), got_second(300), got_third(5);
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, first), sendTo(1, second)}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, got_first)}).ok());
  for (int i = 0; i < 20; ++i) {
    rank(0).poll();
    rank(1).poll();
  }
  ASSERT_TRUE(rank(1).done());
  ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, got_second), receiveFrom(0, got_third)}).ok());
  for (int i = 0; i < 20; ++i) {
    rank(0).poll();
    rank(1).poll();
  }
  ASSERT_TRUE(rank(0).done());
  EXPECT_FALSE(rank(1).done());
  EXPECT_EQ(rank(1).obstacle().ranks, std::vector<int32_t>{0});
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, third)}).ok());
  ASSERT_TRUE(run());
  EXPECT_EQ(got_first, first);
  EXPECT_EQ(got_second, second);
  EXPECT_EQ(got_third, third);
}

TEST_F(PointToPointRanks, NoPairWaitsForAnother) {
  make(3);
  const auto large = pattern(50'000, 1), small = pattern(10, 2);
  std::vector<std::byte> got(10);
  // Rank 1 does not take what rank 0 sends it; rank 2 gets its message all the same.
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, large), sendTo(2, small)}).ok());
  ASSERT_TRUE(rank(1).begin({}).ok());
  ASSERT_TRUE(rank(2).begin(std::vector{receiveFrom(0, got)}).ok());
  EXPECT_FALSE(run());
  EXPECT_TRUE(rank(2).done());
  EXPECT_EQ(got, small);
  EXPECT_EQ(rank(0).obstacle().text, "768 of 50000 bytes to rank 1");
}

TEST_F(PointToPointRanks, CopyWhatTheySendThemselves) {
  make(2);
  const auto data = pattern(1000, 4);
  std::vector<std::byte> got(1000), short_one(999);
  ASSERT_TRUE(rank(0).begin(std::vector{receiveFrom(0, got), sendTo(0, data)}).ok());
  EXPECT_TRUE(rank(0).done());
  EXPECT_EQ(got, data);
  EXPECT_EQ(rank(0).begin(std::vector{sendTo(0, data)}).code(), Code::kInvalidUsage);
  EXPECT_EQ(rank(0).begin(std::vector{sendTo(0, data), receiveFrom(0, short_one)}).code(),
            Code::kInvalidUsage);
}

TEST_F(PointToPointRanks, HaveTheirMessagesCopied) {
  make(3);
  SlowCopier copier, another;
  std::vector<std::vector<std::byte>> sent, received;
  std::vector<std::vector<Transfer>> transfers(3);
  constexpr size_t kSizes[] = {0, 1, 255, 256, 257, 10'000};
  for (int me = 0; me < 3; ++me)
    for (int peer = 0; peer < 3; ++peer)
      for (const size_t bytes : kSizes) {
        if (peer == me) continue;
        sent.push_back(pattern(bytes, 3 * me + peer));
        received.emplace_back(bytes);
      }
  size_t next = 0;
  for (int me = 0; me < 3; ++me)
    for (int peer = 0; peer < 3; ++peer)
      for (size_t i = 0; peer != me && i < std::size(kSizes); ++i, ++next) {
        Transfer send = sendTo(peer, sent[next]), receive = receiveFrom(me, received[next]);
        // Some messages of a flow, and some flows.
        if (i % 3 != 2 && me != 2) send.copier = receive.copier = i % 3 == 0 ? &copier : &another;
        transfers[static_cast<size_t>(me)].push_back(send);
        transfers[static_cast<size_t>(peer)].push_back(receive);
      }
  // One copier for each rank, with its own flows.
  std::vector<std::unique_ptr<SlowCopier>> copiers;
  for (int me = 0; me < 3; ++me) {
    SlowCopier* const own[] = {copiers.emplace_back(std::make_unique<SlowCopier>()).get(),
                               copiers.emplace_back(std::make_unique<SlowCopier>()).get()};
    for (Transfer& transfer : transfers[static_cast<size_t>(me)])
      if (transfer.copier) transfer.copier = transfer.copier == &copier ? own[0] : own[1];
    ASSERT_TRUE(rank(me).begin(transfers[static_cast<size_t>(me)]).ok());
  }
  ASSERT_TRUE(run()) << rank(0).obstacle().text;
  EXPECT_EQ(received, sent);
  for (int me = 0; me < 3; ++me) EXPECT_NE(rank(me).pause(), Pause::kForCopies);
}

TEST_F(PointToPointRanks, WaitForCopiesAndNotForPeers) {
  make(2);
  SlowCopier sender, receiver;
  sender.is_stuck = true;
  const auto data = pattern(1000, 4);
  std::vector<std::byte> got(1000);
  Transfer send = sendTo(1, data), receive = receiveFrom(0, got);
  send.copier = &sender;
  receive.copier = &receiver;
  ASSERT_TRUE(rank(0).begin(std::vector{send}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{receive}).ok());
  EXPECT_FALSE(run());
  EXPECT_EQ(rank(0).pause(), Pause::kForCopies);
  EXPECT_TRUE(rank(0).obstacle().isNobody());
  EXPECT_EQ(rank(0).obstacle().text, "0 of 1000 bytes to rank 1, which wait for a copy of a device");
  EXPECT_EQ(rank(1).pause(), Pause::kUntilRung);
  EXPECT_EQ(rank(1).obstacle().ranks, std::vector<int32_t>{0});
  sender.is_stuck = false;
  receiver.is_stuck = true;
  EXPECT_FALSE(run());
  EXPECT_EQ(rank(0).pause(), Pause::kUntilRung);
  EXPECT_EQ(rank(0).obstacle().gives_to, std::vector<int32_t>{1});
  EXPECT_EQ(rank(1).pause(), Pause::kForCopies);
  receiver.is_stuck = false;
  ASSERT_TRUE(run());
  EXPECT_EQ(got, data);
}

TEST_F(PointToPointRanks, NameWhoseCopyFailed) {
  for (const bool sends : {true, false}) {
    make(2);
    SlowCopier copier;
    const auto data = pattern(1000, 4);
    std::vector<std::byte> got(1000);
    Transfer send = sendTo(1, data), receive = receiveFrom(0, got);
    (sends ? send : receive).copier = &copier;
    ASSERT_TRUE(rank(0).begin(std::vector{send}).ok());
    ASSERT_TRUE(rank(1).begin(std::vector{receive}).ok());
    for (int i = 0; i < 2; ++i) {
      rank(0).poll();
      rank(1).poll();
    }
    copier.fails = true;
    EXPECT_FALSE(run());
    const Status& status = rank(sends ? 0 : 1).status();
    EXPECT_EQ(status.code(), Code::kSystemError);
    EXPECT_EQ(status.message(),
              sends ? "rank 0, a message to rank 1: no copy" : "rank 1, a message from rank 0: no copy");
    clear();
  }
}

TEST_F(PointToPointRanks, NameSizesThatDiffer) {
  make(2);
  const auto data = pattern(1000, 4);
  std::vector<std::byte> got(1001);
  ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, data)}).ok());
  ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, got)}).ok());
  EXPECT_FALSE(run());
  EXPECT_EQ(rank(1).status().code(), Code::kInvalidUsage);
  EXPECT_NE(rank(1).status().message().find(
                "message #0 from rank 0 to have 1001 bytes, and rank 0 sent #0 of 1000"),
            std::string::npos)
      << rank(1).status().message();
}

}  // namespace
}  // namespace horing
