// The contract of links: how they begin, how they fail, how they end.
#include <algorithm>
#include <array>
#include <random>

#include "contract_ranks.h"

namespace horing::testing {
namespace {

constexpr LinkShape kSmall{.channels = 1, .slots = 4, .slot_bytes = 256};

class LinkContract : public TransportContract {};

TEST_P(LinkContract, EstablishesInEitherOrder) {
  for (const int first : {0, 1}) {
    ContractRanks ranks(GetParam(), 2);
    ASSERT_TRUE(ranks.made(2));
    Link* early = ranks.connect(first, 1 - first, kSmall);
    ASSERT_NE(early, nullptr);
    for (int i = 0; i < 50; ++i) ranks.pump();
    EXPECT_FALSE(early->established()) << "before the other end asked for it";
    Link* late = ranks.connect(1 - first, first, kSmall);
    ASSERT_NE(late, nullptr);
    EXPECT_TRUE(ranks.pumpUntil([&] { return early->established() && late->established(); }));
    EXPECT_EQ(early->peer(), 1 - first);
    EXPECT_EQ(late->peer(), first);
    EXPECT_FALSE(early->describe().empty());
    EXPECT_TRUE(early->status().ok()) << early->status().toString();
  }
}

TEST_P(LinkContract, LinksManyRanksAtOnce) {
  constexpr int kRanks = 6;
  ContractRanks ranks(GetParam(), kRanks);
  ASSERT_TRUE(ranks.made(kRanks));
  std::vector<Link*> links(kRanks * kRanks, nullptr);
  for (int a = 0; a < kRanks; ++a) {
    for (int b = 0; b < kRanks; ++b) {
      if (a == b) continue;
      ASSERT_NE(links[static_cast<size_t>(a * kRanks + b)] = ranks.connect(a, b, kSmall), nullptr);
    }
  }
  ASSERT_TRUE(ranks.pumpUntil([&] {
    return std::all_of(links.begin(), links.end(),
                       [](Link* link) { return link == nullptr || link->established(); });
  }));
  const auto link = [&](int a, int b) { return links[static_cast<size_t>(a * kRanks + b)]; };
  for (int a = 0; a < kRanks; ++a) {
    for (int b = 0; b < kRanks; ++b) {
      if (a == b) continue;
      ASSERT_TRUE(sendPattern(ranks, link(a, b)->sender(0), 64, static_cast<uint64_t>(a * 100 + b)));
    }
  }
  for (int a = 0; a < kRanks; ++a) {
    for (int b = 0; b < kRanks; ++b) {
      if (a != b) expectPattern(ranks, link(b, a)->receiver(0), 64, static_cast<uint64_t>(a * 100 + b));
    }
  }
}

TEST_P(LinkContract, EveryRankReachesEveryOther) {
  ContractRanks ranks(GetParam(), 3);
  ASSERT_TRUE(ranks.made(3));
  for (int a = 0; a < 3; ++a) {
    EXPECT_LE(ranks.at(a).address().size(), kMaxAddressBytes);
    for (int b = 0; b < 3; ++b) {
      if (a == b) continue;
      EXPECT_TRUE(ranks.at(a).canReach(ranks.at(b).address())) << a << " to " << b;
    }
  }
}

TEST_P(LinkContract, NamesBothShapesWhenTheyDiffer) {
  constexpr LinkShape kOther{.channels = 1, .slots = 5, .slot_bytes = 512};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  std::vector<Status> errors(2);
  std::vector<Link*> links(2, nullptr);
  for (int rank = 0; rank < 2; ++rank) {
    Result<Link*> link =
        ranks.at(rank).connect(1 - rank, ranks.at(1 - rank).address(), rank == 0 ? kSmall : kOther);
    if (link.ok())
      links[static_cast<size_t>(rank)] = link.value();
    else
      errors[static_cast<size_t>(rank)] = link.status();
  }
  const auto failed = [&](size_t rank) {
    if (errors[rank].ok() && links[rank] != nullptr) errors[rank] = links[rank]->status();
    return !errors[rank].ok();
  };
  ASSERT_TRUE(ranks.pumpUntil([&] { return failed(0) && failed(1); }));
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string& text = errors[rank].message();
    for (const char* part : {"4", "256", "5", "512", "rank 0", "rank 1"}) {
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
    }
    if (links[rank] != nullptr) {
      EXPECT_FALSE(links[rank]->established());
      EXPECT_FALSE(ranks.at(static_cast<int>(rank)).progress().ok())
          << "the transport reports what its link does";
    }
  }
}

TEST_P(LinkContract, RefusesImpossibleShapes) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const std::vector<std::byte> address = ranks.at(1).address();
  for (const LinkShape& shape :
       {LinkShape{0, 4, 256}, LinkShape{kMaxLinkChannels + 1, 4, 256}, LinkShape{1, 1, 256},
        LinkShape{1, kMaxSlots + 1, 256}, LinkShape{1, 4, 256, 3}, LinkShape{1, 4, 256, kMaxSlots + 1},
        LinkShape{1, 4, 0}, LinkShape{1, 4, 100}, LinkShape{1, 4, kMaxSlotBytes + 64}}) {
    const Result<Link*> link = ranks.at(0).connect(1, address, shape);
    ASSERT_FALSE(link.ok()) << shape.channels << ' ' << shape.slots << ' ' << shape.slot_bytes;
    EXPECT_EQ(link.status().code(), Code::kInvalidArgument);
  }
}

TEST_P(LinkContract, RefusesANumberTwiceOrOutOfRange) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  ASSERT_NE(ranks.connect(0, 1, kSmall), nullptr);
  EXPECT_FALSE(ranks.at(0).connect(1, ranks.at(1).address(), kSmall).ok());
  ASSERT_NE(ranks.connect(0, 1, kSmall, kMaxLinksPerPeer - 1), nullptr);
  EXPECT_FALSE(ranks.at(0).connect(1, ranks.at(1).address(), kSmall, kMaxLinksPerPeer - 1).ok());
  for (const int number : {-1, kMaxLinksPerPeer}) {
    const Result<Link*> link = ranks.at(0).connect(1, ranks.at(1).address(), kSmall, number);
    ASSERT_FALSE(link.ok()) << number;
    EXPECT_EQ(link.status().code(), Code::kInvalidArgument);
  }
}

// The ends begin their links in opposite order and give each number a different shape: if numbers were mixed up, the shapes would
// disagree.
TEST_P(LinkContract, CarriesIndependentDataOverSeveralLinksToOnePeer) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto shapeOf = [](int number) {
    return LinkShape{.channels = 1, .slots = 2u + static_cast<uint32_t>(number), .slot_bytes = 256};
  };
  std::array<Link*, kMaxLinksPerPeer> low{}, high{};
  for (int i = 0; i < kMaxLinksPerPeer; ++i) {
    const int last = kMaxLinksPerPeer - 1 - i;
    ASSERT_NE(low[static_cast<size_t>(i)] = ranks.connect(0, 1, shapeOf(i), i), nullptr);
    ASSERT_NE(high[static_cast<size_t>(last)] = ranks.connect(1, 0, shapeOf(last), last), nullptr);
    for (int round = 0; round < 20; ++round) ranks.pump();
  }
  ASSERT_TRUE(ranks.pumpUntil([&] {
    return std::all_of(low.begin(), low.end(), [](Link* link) { return link->established(); }) &&
           std::all_of(high.begin(), high.end(), [](Link* link) { return link->established(); });
  }));
  // Link 0 is full and is not read: the other links must make progress, both ways.
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(sendPattern(ranks, low[0]->sender(0), 64, i));
  for (size_t number = 1; number < low.size(); ++number) {
    EXPECT_EQ(low[number]->number(), static_cast<int>(number));
    for (uint64_t i = 0; i < 20; ++i) {
      const uint64_t seed = number * 1000 + i;
      ASSERT_TRUE(sendPattern(ranks, low[number]->sender(0), 200, seed));
      ASSERT_TRUE(sendPattern(ranks, high[number]->sender(0), 100, seed + 500));
      expectPattern(ranks, high[number]->receiver(0), 200, seed);
      expectPattern(ranks, low[number]->receiver(0), 100, seed + 500);
      ASSERT_FALSE(HasFatalFailure()) << "link " << number;
    }
  }
  EXPECT_EQ(low[0]->sender(0).tryAcquire(kWholeSlot), nullptr);
  for (uint64_t i = 0; i < 2; ++i) expectPattern(ranks, high[0]->receiver(0), 64, i);
}

TEST_P(LinkContract, DoesNotJoinLinksOfDifferentNumbers) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  Link* zero = ranks.connect(0, 1, kSmall, 0);
  Link* one = ranks.connect(1, 0, kSmall, 1);
  ASSERT_TRUE(zero != nullptr && one != nullptr);
  for (int i = 0; i < 200; ++i) ranks.pump();
  EXPECT_FALSE(zero->established());
  EXPECT_FALSE(one->established());
  EXPECT_TRUE(zero->status().ok()) << zero->status().toString();
}

// Bytes that no peer of this version wrote: neither believed nor fatal.
TEST_P(LinkContract, SurvivesHostileAddresses) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const std::vector<std::byte> good = ranks.at(1).address();
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> surely_bad{{}};
  for (size_t bytes = 1; bytes < good.size(); ++bytes)
    surely_bad.emplace_back(good.begin(), good.begin() + static_cast<long>(bytes));
  surely_bad.emplace_back(good.size(), std::byte{0});
  surely_bad.emplace_back(good.size(), std::byte{0xff});
  for (const size_t bytes : {good.size(), kMaxAddressBytes, kMaxAddressBytes * 64}) {
    std::vector<std::byte> noise(bytes);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    surely_bad.push_back(noise);
  }
  for (const auto& address : surely_bad) {
    EXPECT_FALSE(ranks.at(0).canReach(address)) << address.size() << " bytes of " << good.size();
    EXPECT_FALSE(ranks.at(0).connect(1, address, kSmall).ok())
        << address.size() << " bytes of " << good.size();
  }
  // One byte of a good one changed: may or may not be reachable, must not crash.
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bent = good;
    bent[i] ^= static_cast<std::byte>(1 + random() % 255);
    [[maybe_unused]] const bool reachable = ranks.at(0).canReach(bent);
  }
  EXPECT_TRUE(ranks.at(0).canReach(good)) << "after all of that";
}

TEST_P(LinkContract, ReportsPlausibleMemory) {
  constexpr LinkShape kShape{.channels = 3, .slots = 6, .slot_bytes = 4096};
  constexpr uint64_t kData = 3 * 6 * 4096;
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const uint64_t before = ranks.at(0).memoryBytes();
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  EXPECT_GE(a->memoryBytes(), kData);
  EXPECT_LE(a->memoryBytes(), 4 * kData + (1 << 20));
  EXPECT_GE(ranks.at(0).memoryBytes(), before + kData);
}

TEST_P(LinkContract, FailsNamingAPeerThatLeftWithoutSending) {
  ContractRanks ranks(GetParam(), 3);
  ASSERT_TRUE(ranks.made(3));
  const std::pair<Link*, Link*> both = ranks.link(1, 2, kSmall);
  Link* link = both.first;
  ASSERT_NE(link, nullptr);
  ASSERT_TRUE(sendPattern(ranks, link->sender(0), 32, 1));
  ranks.destroy(2);
  ASSERT_TRUE(ranks.pumpUntil([&] {
    EXPECT_EQ(link->receiver(0).tryPeek(), nullptr);
    return !link->status().ok();
  }));
  EXPECT_EQ(link->status().code(), Code::kRemoteError) << link->status().toString();
  EXPECT_NE(link->status().message().find("rank 2"), std::string::npos) << link->status().message();
  EXPECT_EQ(ranks.at(1).progress().code(), Code::kRemoteError);
  // Sticky, and still no crash.
  const std::string first = link->status().message();
  for (int i = 0; i < 100; ++i) {
    ranks.pump();
    if (link->sender(0).tryAcquire(kWholeSlot) != nullptr) link->sender(0).post(8, 2);
    EXPECT_EQ(link->receiver(0).tryPeek(), nullptr);
  }
  EXPECT_EQ(link->status().message(), first);
}

TEST_P(LinkContract, FailsASenderWhosePeerLeftWithItsCredits) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const std::pair<Link*, Link*> both = ranks.link(0, 1, kSmall);
  Link* link = both.first;
  ASSERT_NE(link, nullptr);
  for (uint32_t i = 0; i < kSmall.slots; ++i) ASSERT_TRUE(sendPattern(ranks, link->sender(0), 32, i));
  ranks.destroy(1);
  EXPECT_TRUE(ranks.pumpUntil([&] {
    [[maybe_unused]] const std::byte* slot = link->sender(0).tryAcquire(kWholeSlot);
    return !link->status().ok();
  }));
  EXPECT_EQ(link->status().code(), Code::kRemoteError);
}

TEST_P(LinkContract, DeliversWhatWasSentBeforeThePeerLeft) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  if (!ranks.fixture().keepsMessagesOfDeparted()) GTEST_SKIP() << GetParam().name << " promises nothing here";
  const std::pair<Link*, Link*> both = ranks.link(0, 1, kSmall);
  Link* link = both.first;
  Link* theirs = both.second;
  ASSERT_NE(link, nullptr);
  for (uint64_t i = 0; i < kSmall.slots; ++i) ASSERT_TRUE(sendPattern(ranks, theirs->sender(0), 200, i));
  ASSERT_TRUE(ranks.pumpUntil([&] { return theirs->sender(0).flushed(); }));
  ranks.destroy(1);
  for (int i = 0; i < 50; ++i) ranks.pump();
  for (uint64_t i = 0; i < kSmall.slots; ++i) {
    EXPECT_TRUE(ranks.pumpUntil([&] { return link->receiver(0).hasMessage(); }));
    expectPattern(ranks, link->receiver(0), 200, i);
  }
  EXPECT_FALSE(link->receiver(0).hasMessage());
  EXPECT_TRUE(link->status().ok()) << "to ask is no error: " << link->status().toString();
}

TEST_P(LinkContract, TellsThatThePeerHasLeftAndFailsOnceMoreIsAskedOfIt) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  Link* const link = ranks.link(0, 1, kSmall).first;
  ASSERT_NE(link, nullptr);
  for (int i = 0; i < 50; ++i) ranks.pump();
  EXPECT_FALSE(link->departed());
  ranks.destroy(1);
  EXPECT_TRUE(ranks.pumpUntil([&] { return link->departed(); }));
  EXPECT_FALSE(link->receiver(0).hasMessage());
  EXPECT_TRUE(link->status().ok()) << link->status().toString();
  EXPECT_EQ(link->receiver(0).tryPeek(), nullptr);
  EXPECT_EQ(link->status().code(), Code::kRemoteError);
  EXPECT_TRUE(link->departed());
}

TEST_P(LinkContract, FailsALinkWhosePeerLeavesDuringTheHandshake) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  Link* link = ranks.connect(0, 1, kSmall);
  ASSERT_NE(link, nullptr);
  ranks.pump();
  ranks.destroy(1);
  // Not every transport can notice (there may be nothing to break); none may crash or pretend.
  for (int i = 0; i < 200; ++i) ranks.pump();
  EXPECT_FALSE(link->established());
  if (link->status().message().find("has left") != std::string::npos) {
    EXPECT_TRUE(link->departed()) << link->status().toString();
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, LinkContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
