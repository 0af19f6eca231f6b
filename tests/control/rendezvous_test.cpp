#include "control/rendezvous.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/auth.h"
#include "base/hex.h"
#include "control/rank_list.h"
#include "control/root_service.h"

namespace horing {
namespace {

constexpr int64_t kMs = 1'000'000;

HelloMessage helloOf(int rank, int ranks, uint32_t timeout_ms = 1000) {
  return {rank, ranks, timeout_ms, {"node-" + std::to_string(rank), 100 + rank, 7}};
}

std::string reasonOf(const SharedMessage& message) {
  const auto decoded = decodeRootMessage(*message);
  const FailureMessage* failure = decoded.ok() ? std::get_if<FailureMessage>(&decoded.value()) : nullptr;
  return failure ? failure->reason : "";
}

TEST(Rendezvous, WelcomesWhenAllAreThereAndNamesItsHost) {
  Rendezvous rendezvous({"node-1", 101, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2), 0).ok());
  EXPECT_TRUE(rendezvous.takeBroadcasts().empty());
  EXPECT_TRUE(rendezvous.hello(helloOf(1, 2), 0).ok());
  const auto messages = rendezvous.takeBroadcasts();
  ASSERT_EQ(messages.size(), 1u);
  const auto welcome = std::get<WelcomeMessage>(decodeRootMessage(*messages[0]).take());
  EXPECT_EQ(welcome.host_rank, 1);
  EXPECT_EQ(welcome.ranks[0].host, "node-0");
}

TEST(Rendezvous, GivesUpWithItsLeastPatientRank) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(2, 4, 5000), 0).ok());
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 4, 100), 10 * kMs).ok());
  EXPECT_EQ(rendezvous.nextTickNs(), 110 * kMs);
  rendezvous.tick(110 * kMs - 1);
  EXPECT_FALSE(rendezvous.failed());
  rendezvous.tick(110 * kMs);
  const auto messages = rendezvous.takeBroadcasts();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(reasonOf(messages[0]), "ranks 1, 3 of 4 did not arrive within 100 ms; arrived: 0, 2");
}

TEST(Rendezvous, NamesTheWholeTimeOfARankThatHasSpentSomeOfIt) {
  Rendezvous rendezvous({"launcher", 1, 7});
  HelloMessage hello = helloOf(0, 2, 100);
  hello.spent_ms = 30;
  EXPECT_TRUE(rendezvous.hello(hello, 10 * kMs).ok());
  EXPECT_EQ(rendezvous.nextTickNs(), 80 * kMs);
  rendezvous.tick(80 * kMs);
  EXPECT_EQ(reasonOf(rendezvous.takeBroadcasts()[0]), "rank 1 of 2 did not arrive within 100 ms; arrived: 0");
}

TEST(Rendezvous, SurvivesARankThatHasSpentMoreThanItHas) {
  Rendezvous rendezvous({"launcher", 1, 7});
  HelloMessage hello = helloOf(0, 2, 100);
  hello.spent_ms = UINT32_MAX;
  EXPECT_TRUE(rendezvous.hello(hello, 10 * kMs).ok());
  EXPECT_EQ(rendezvous.nextTickNs(), 10 * kMs);
}

TEST(Rendezvous, TellsOnceWhoIsLate) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_EQ(rendezvous.nextTickNs(), INT64_MAX);
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2, 60'000), 5 * kMs).ok());
  EXPECT_EQ(rendezvous.nextTickNs(), 10'005 * kMs);
  EXPECT_EQ(rendezvous.takeLate(10'005 * kMs - 1), "");
  EXPECT_EQ(rendezvous.takeLate(10'005 * kMs), "rank 1 of 2 did not arrive within 10000 ms; arrived: 0");
  EXPECT_EQ(rendezvous.takeLate(20'000 * kMs), "");
  EXPECT_EQ(rendezvous.nextTickNs(), 60'005 * kMs);
  // It comes, and is late in what follows.
  EXPECT_TRUE(rendezvous.hello(helloOf(1, 2, 60'000), 30'000 * kMs).ok());
  EXPECT_FALSE(rendezvous.failed());
  EXPECT_EQ(rendezvous.nextTickNs(), INT64_MAX);
  EXPECT_TRUE(rendezvous.gather(1, {1, 60'000, {}, "horingCommSplit"}, 30'000 * kMs).ok());
  EXPECT_EQ(rendezvous.takeLate(40'000 * kMs),
            "rank 0 of 2 did not take part in horingCommSplit within 10000 ms; those that did: 1");
}

TEST(Rendezvous, SaysWhoIsInACallThatDoesNotEndAndWhoIsInNone) {
  Rendezvous rendezvous({"launcher", 1, 7});
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(rendezvous.hello(helloOf(rank, 3), 0).ok());
  const auto firstLine = [&](int64_t now_ns) {
    return rendezvous.jobLines(now_ns, [](int) { return 0; }).front();
  };
  const std::string nothing = "by the calls that have ended, no rank comes late and no path is slow";
  constexpr int64_t kSecond = 1000 * kMs;
  for (int rank = 0; rank < 3; ++rank)
    rendezvous.notePace(rank, {.interval_us = 1'000'000, .calls = 9}, kSecond);
  EXPECT_EQ(firstLine(kSecond), nothing);
  EXPECT_EQ(firstLine(9 * kSecond), nothing) << "all compute";
  for (const int rank : {0, 2})
    rendezvous.notePace(rank, {.interval_us = 1'000'000, .now = "all_reduce #9 (4 x int8, sum)"},
                        9 * kSecond);
  EXPECT_EQ(firstLine(9 * kSecond),
            "ranks 0, 2 have ended no call for a second or more, rank 0 is in all_reduce #9 (4 x int8, sum); "
            "rank 1 is in no call");
  rendezvous.notePace(1, {.interval_us = 1'000'000, .now = "all_reduce #9 (4 x int8, sum)"}, 10 * kSecond);
  EXPECT_EQ(firstLine(10 * kSecond), nothing);
}

TEST(Rendezvous, TellsOfTroubleThatMayExplainAMissingRank) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2, 100), 0).ok());
  rendezvous.noteTrouble("a connection from 10.0.0.9:1 was refused");
  rendezvous.tick(100 * kMs);
  EXPECT_NE(reasonOf(rendezvous.takeBroadcasts()[0]).find("10.0.0.9:1 was refused"), std::string::npos);
}

TEST(Rendezvous, RefusesAnExchangeOutOfTurn) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2), 0).ok());
  EXPECT_FALSE(rendezvous.gather(0, {1, 100, {}}, 0).ok()) << "before all are there";
  EXPECT_TRUE(rendezvous.hello(helloOf(1, 2), 0).ok());
  EXPECT_FALSE(rendezvous.gather(0, {2, 100, {}}, 0).ok()) << "the one after the next";
  EXPECT_TRUE(rendezvous.gather(0, {1, 100, {}}, 0).ok());
  EXPECT_FALSE(rendezvous.gather(0, {1, 100, {}}, 0).ok()) << "twice";
}

TEST(Rendezvous, CallsALeaverBeforeTheEndOfAnExchangeAnError) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2), 0).ok());
  EXPECT_TRUE(rendezvous.hello(helloOf(1, 2), 0).ok());
  EXPECT_TRUE(rendezvous.gather(0, {1, 100, {}}, 0).ok());
  rendezvous.goodbye(1);
  EXPECT_TRUE(rendezvous.failed());
  EXPECT_EQ(rendezvous.present(), 1);
}

// One of each kind, none of whose fields has its initial value.
std::vector<RankMessage> messagesOfRanks() {
  return {
      HelloMessage{1, 3, 1000, {"node-1", 101, 7}, {std::byte{9}}, 30},
      GatherMessage{4, 5, std::vector<std::byte>(9), "horingCommSplit"},
      AnnounceMessage{Code::kTimeout, "late"},
      GoodbyeMessage{},
      BeatMessage{500, 6},
      CallReport{CallReport::Kind::kOverdue, 7, 1, 8, 7, 9, "all_gather", "1 x int8", 5, {1, 2}, "lane 0"},
      ReturnMessage{3, {std::byte{9}}, 12},
      RankState{RankState::Doing::kCollective, 1, 7, "all_gather", 5000, 300, {1, 2}, {3}},
      PingMessage{3},
      Pace{1'000'000, 20, 500, {{{.peer = 2, .for_room = true}, 400}}, 77, "all_gather #7"},
      JobQuestion{},
  };
}

std::vector<RootMessage> messagesOfRoot() {
  const ProcessName process{"a", 1, 2};
  return {
      WelcomeMessage{1, process, {process, process}, 4711},
      GatheredMessage{4, {{}, std::vector<std::byte>(3)}},
      FailureMessage{Code::kRemoteError, 2, "gone"},
      ClosingMessage{},
      BeatEchoMessage{7},
      CallInquiry{7, 1},
      ReturnedMessage{7},
      StateInquiry{1},
      PongMessage{3},
      JobAnswer{{"rank 0", "rank 1"}},
  };
}

std::vector<std::vector<std::byte>> encodedMessages() {
  std::vector<std::vector<std::byte>> encoded;
  for (const RankMessage& message : messagesOfRanks()) encoded.push_back(encodeMessage(message));
  for (const RootMessage& message : messagesOfRoot()) encoded.push_back(encodeMessage(message));
  return encoded;
}

template <typename Message>
void expectAllKindsSurvive(const std::vector<Message>& messages,
                           Result<Message> (*decode)(std::span<const std::byte>)) {
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>) << "one of each kind";
  for (size_t kind = 0; kind < messages.size(); ++kind) {
    EXPECT_EQ(messages[kind].index(), kind);
    const std::vector<std::byte> bytes = encodeMessage(messages[kind]);
    const Result<Message> decoded = decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().toString();
    EXPECT_EQ(decoded.value().index(), kind);
    EXPECT_EQ(encodeMessage(decoded.value()), bytes);
  }
}

TEST(ControlMessages, SurviveTheirEncoding) {
  expectAllKindsSurvive(messagesOfRanks(), decodeRankMessage);
  expectAllKindsSurvive(messagesOfRoot(), decodeRootMessage);
}

// Other versions of the library may be on the other end as long as kProtocolVersion is the same: a change of these bytes raises it.
TEST(ControlMessages, AreTheSameBytesInEveryLibraryOfThisProtocol) {
  Key digest;
  for (const auto& message : encodedMessages()) {
    std::vector<std::byte> text(digest.bytes.begin(), digest.bytes.end());
    text.insert(text.end(), message.begin(), message.end());
    digest = Key::derive(text, "control messages");
  }
  EXPECT_EQ(kProtocolVersion, 21u);
  EXPECT_EQ(hexText(digest.bytes), "45186bafdb76f73def9232b3f64bb39afce78b1733a98c4567f582c9c8807065");
}

TEST(ControlMessages, AreRefusedWhereAFieldIsOutOfItsLimits) {
  RankState state;
  state.doing = static_cast<RankState::Doing>(3);
  EXPECT_FALSE(decodeRankMessage(encodeMessage(RankMessage(state))).ok());
  CallReport report;
  report.kind = static_cast<CallReport::Kind>(4);
  EXPECT_FALSE(decodeRankMessage(encodeMessage(RankMessage(report))).ok());
  report.kind = CallReport::Kind::kAnswer;
  report.waits_for.resize(kMaxWaitedFor);
  EXPECT_TRUE(decodeRankMessage(encodeMessage(RankMessage(report))).ok());
  report.waits_for.resize(kMaxWaitedFor + 1);
  EXPECT_FALSE(decodeRankMessage(encodeMessage(RankMessage(report))).ok());
  const GatherMessage large{.exchange = 1, .part = std::vector<std::byte>(kMaxGatherBytes + 1)};
  EXPECT_FALSE(decodeRankMessage(encodeMessage(RankMessage(large))).ok());
  // An error stays one, whatever its code.
  const auto bytes = encodeMessage(RootMessage(FailureMessage{static_cast<Code>(99), 2, "gone"}));
  EXPECT_EQ(std::get<FailureMessage>(decodeRootMessage(bytes).take()).code, Code::kInternalError);
}

TEST(ControlMessages, SurviveHostileBytes) {
  for (const auto& message : encodedMessages()) {
    EXPECT_NE(decodeRankMessage(message).ok(), decodeRootMessage(message).ok()) << "only one end says this";
    for (size_t length = 0; length < message.size(); ++length) {
      const auto cut = std::span(message).first(length);
      EXPECT_FALSE(decodeRankMessage(cut).ok() || decodeRootMessage(cut).ok());
    }
    for (int round = 0; round < 500; ++round) {
      auto damaged = message;
      std::array<std::byte, 2> where;
      randomBytes(where);
      damaged[static_cast<size_t>(where[0]) % damaged.size()] ^= where[1];
      [[maybe_unused]] const bool either = decodeRankMessage(damaged).ok() || decodeRootMessage(damaged).ok();
    }
  }
}

TEST(ControlMessages, CannotSmuggleControlCharactersIntoALog) {
  const auto bytes = encodeMessage(RankMessage(AnnounceMessage{Code::kTimeout, "a\n\x1b[31mb"}));
  EXPECT_EQ(std::get<AnnounceMessage>(decodeRankMessage(bytes).take()).reason, "a??[31mb");
}

TEST(RankList, ShortensRunsAndLongLists) {
  EXPECT_EQ(rankList(std::vector<int>{}), "");
  EXPECT_EQ(rankList(std::vector<int>{3}), "3");
  EXPECT_EQ(rankList(std::vector<int>{3, 7}), "3, 7");
  EXPECT_EQ(rankList(std::vector<int>{3, 4, 7}), "3, 4, 7");
  EXPECT_EQ(rankList(std::vector<int>{0, 1, 2, 5, 8, 9, 10}), "0-2, 5, 8-10");
  std::vector<int> even;
  for (int rank = 0; rank < 200; rank += 2) even.push_back(rank);
  EXPECT_TRUE(rankList(even).ends_with("28, 30 and 84 more")) << rankList(even);
  std::vector<int> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(rankList(all), "0-999");
}

}  // namespace
}  // namespace horing
