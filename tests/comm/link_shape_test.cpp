// How much memory the links of a communicator may take.
#include "comm/links/link_shape.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "../transport/pump.h"
#include "../transport/shm_folder.h"
#include "../transport/verbs_fake.h"
#include "comm/links/connector.h"
#include "engine/host/plan.h"
#include "transport/loopback/loopback_transport.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace horing {
namespace {

Config configWith(const char* variable, const char* value) {
  return Config::fromLookup(
             [&](const std::string& name) -> const char* { return name == variable ? value : nullptr; })
      .take();
}

// For collectives, and for sends and receives.
uint64_t bytesOfLinks(const LinkShape& shape, int peers) {
  return uint64_t{2} * static_cast<uint64_t>(shape.channels + kPointToPointChannels) * shape.slots *
         shape.slot_bytes * static_cast<uint64_t>(peers);
}

// Of two ranks.
using MakeTransport = std::function<Result<std::unique_ptr<Transport>>(int rank)>;
void expectCallersSlotsBetweenNodesOnly(const MakeTransport& make) {
  const std::array<std::unique_ptr<Transport>, 2> ranks{make(0).take(), make(1).take()};
  const std::string name = ranks[0]->name();
  Link* const low = ranks[0]->connect(1, ranks[1]->address(), {}).take();
  Link* const high = ranks[1]->connect(0, ranks[0]->address(), {}).take();
  ASSERT_TRUE(testing::pumpUntil(ranks, [&] { return low->established() && high->established(); })) << name;
  EXPECT_EQ(low->sender(0).callersSlots() != nullptr, isBetweenNodes(name)) << name;
  EXPECT_EQ(high->receiver(0).callersSlots() != nullptr, isBetweenNodes(name)) << name;
}

TEST(LinkShape, KnowsWhichTransportsUseCallersSlots) {
  const SteadyClock clock;
  const testing::ShmFolder folder;
  const auto hub = LoopbackHub::create(2).take(), control = LoopbackHub::create(2).take();
  const Key key = Key::random();
  testing::FakeVerbs verbs{{{.name = "fake0", .gid = testing::fakeGid(0, 1)}}};
  expectCallersSlotsBetweenNodesOnly([&](int rank) { return makeLoopbackTransport(hub, rank); });
  expectCallersSlotsBetweenNodesOnly([&](int rank) { return makeShmTransport(folder.options(rank)); });
  expectCallersSlotsBetweenNodesOnly([&](int rank) {
    return makeSocketTransport({.rank = rank, .key = key, .interfaces = "=lo", .clock = &clock});
  });
  expectCallersSlotsBetweenNodesOnly([&](int rank) {
    return makeVerbsTransport({.rank = rank, .library = &verbs.library(), .clock = &clock},
                              makeLoopbackTransport(control, rank).take());
  });
}

TEST(LinkShape, OfSixteenRanksOverTcpLeavesRoomForTheRestIn64MiB) {
  const Config config = configWith("", "");
  for (const int ranks : {2, 4, 6}) EXPECT_EQ(linkShapeOf(config, "socket", ranks).slots, 32u) << ranks;
  for (const int ranks : {8, 12, 16}) {
    const LinkShape shape = linkShapeOf(config, "socket", ranks);
    EXPECT_LT(shape.slots, 32u) << ranks;
    EXPECT_LE(bytesOfLinks(shape, ranks - 1), kSlotsBytesBetween) << ranks;
    LinkShape larger = shape;
    ++larger.slots;
    EXPECT_GT(bytesOfLinks(larger, ranks - 1), kSlotsBytesBetween) << "what there is is used: " << ranks;
  }
}

TEST(LinkShape, NeverHasFewerSlotsThanLinksInMemoryUnlessToldSo) {
  const Config usual = configWith("", "");
  for (const int ranks : {64, 1000, 65536})
    EXPECT_EQ(linkShapeOf(usual, "socket", ranks).slots, linkShapeOf(usual, "shm", ranks).slots) << ranks;
  EXPECT_EQ(linkShapeOf(configWith("HORING_TESTS_SOCKET_SLOTS", "6"), "socket", 1000).slots, 6u);
  EXPECT_EQ(linkShapeOf(configWith("HORING_TESTS_SOCKET_SLOTS", "6"), "socket", 2).slots, 6u);
}

TEST(LinkShape, InMemoryHasRoomWithin8MiBForAllPeersAndNeverLessThanItsSlots) {
  const Config usual = configWith("", "");
  for (const int ranks : {2, 4, 8, 16, 1000}) {
    const LinkShape shape = linkShapeOf(usual, "shm", ranks);
    const uint64_t bytes =
        uint64_t{kLinkChannels} * shape.room * shape.slot_bytes * static_cast<uint64_t>(ranks - 1);
    EXPECT_TRUE(shape.room == shape.slots || bytes <= kRoomBytes) << ranks;
    EXPECT_GE(shape.room, shape.slots) << ranks;
  }
  EXPECT_EQ(linkShapeOf(usual, "shm", 2).room, 64u);
  EXPECT_EQ(linkShapeOf(usual, "shm", 16).room, linkShapeOf(usual, "shm", 16).slots);
  EXPECT_EQ(linkShapeOf(configWith("HORING_TESTS_SLOTS", "128"), "shm", 64).room, 128u);
}

}  // namespace
}  // namespace horing
