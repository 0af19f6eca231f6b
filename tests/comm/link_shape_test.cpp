// How much memory the links of a communicator may take.
#include "comm/links/link_shape.h"

#include <gtest/gtest.h>

#include "comm/links/connector.h"
#include "engine/host/plan.h"

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
