#include "control/rendezvous.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/auth.h"
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

TEST(Rendezvous, TellsOfTroubleThatMayExplainAMissingRank) {
  Rendezvous rendezvous({"launcher", 1, 7});
  EXPECT_TRUE(rendezvous.hello(helloOf(0, 2, 100), 0).ok());
  rendezvous.noteTrouble("a connection from 10.0.0.9:1 was turned away");
  rendezvous.tick(100 * kMs);
  EXPECT_NE(reasonOf(rendezvous.takeBroadcasts()[0]).find("10.0.0.9:1 was turned away"), std::string::npos);
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

TEST(ControlMessages, SurviveHostileBytes) {
  WelcomeMessage welcome;
  welcome.host = {"a", 1, 2};
  welcome.ranks = {welcome.host, welcome.host};
  GatheredMessage gathered;
  gathered.exchange = 4;
  gathered.parts = {{}, std::vector<std::byte>(3)};
  const std::vector<std::vector<std::byte>> good = {
      encodeMessage(RankMessage(helloOf(1, 3))),
      encodeMessage(RankMessage(GatherMessage{4, 5, std::vector<std::byte>(9)})),
      encodeMessage(RankMessage(AnnounceMessage{Code::kTimeout, "late"})),
      encodeMessage(RankMessage(BeatMessage{500})),
      encodeMessage(RankMessage(CallReport{
          CallReport::Kind::kOverdue, 7, 1, 8, 7, 9, "all_gather", "1 x int8", 5, {1, 2}, "lane 0"})),
      encodeMessage(RankMessage(ReturnMessage{3, {std::byte{9}}, 12})),
      encodeMessage(RootMessage(CallInquiry{7, 1})),
      encodeMessage(RootMessage(BeatEchoMessage{7})),
      encodeMessage(RootMessage(ReturnedMessage{7})),
      encodeMessage(
          RankMessage(RankState{RankState::Doing::kCollective, 1, 7, "all_gather", 5000, 300, {1, 2}, {3}})),
      encodeMessage(RootMessage(StateInquiry{1})),
      encodeMessage(RankMessage(PingMessage{3})),
      encodeMessage(RootMessage(PongMessage{3})),
      encodeMessage(RootMessage(welcome)),
      encodeMessage(RootMessage(gathered)),
      encodeMessage(RootMessage(FailureMessage{Code::kRemoteError, 2, "gone"})),
  };
  for (const auto& message : good) {
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
