// What ranks tell each other when they meet.
#include "comm/membership/introduction.h"

#include <gtest/gtest.h>

#include "base/auth.h"
#include "base/hex.h"
#include "base/version.h"

namespace horing {
namespace {

// Every field has a value of its own.
Introduction someIntroduction() {
  Introduction introduction{.settings = "HORING_ALGO=ring", .first = {true, false}};
  HostIdentity& identity = introduction.identity;
  identity = {.host_name = "node",
              .boot_id = "boot",
              .host_override = "blade",
              .group_override = "switch-7",
              .switches = "top/leaf0",
              .ipc_namespace = 1,
              .network_namespace = 2,
              .shm_device = 3,
              .shm_inode = 4,
              .pid_namespace = 5,
              .pid = 6,
              .cpus = {0, 1, 35},
              .quota = {1500, 7}};
  identity.gpu.emplace().uuid.fill(std::byte{8});
  Fragment& fragment = introduction.fragment;
  fragment.nodes.push_back(
      {.kind = NodeKind::kNuma, .parent = 0, .name = "1", .gbytes_per_s = 16, .port_gbytes_per_s = 25});
  fragment.nodes.back().bus = "0000:3b:00.0";
  fragment.home = 1;
  fragment.links = {{NodeKind::kFabric, "NVSwitch", 300}};
  introduction.bootstrap_id.emplace().bytes.fill(std::byte{9});
  introduction.addresses = {{std::byte{10}, std::byte{11}}, {}};
  return introduction;
}

TEST(Introduction, SurvivesItsEncoding) {
  const Introduction told = someIntroduction();
  const auto all = decodeIntroductions({encodeFields(told), encodeFields(told)}, 0);
  ASSERT_TRUE(all.ok()) << all.status().toString();
  const Introduction& read = all.value()[1];
  EXPECT_EQ(read.settings, told.settings);
  EXPECT_TRUE(read.first.keeps_tables && !read.first.measures);
  EXPECT_EQ(read.identity, told.identity);
  EXPECT_EQ(read.fragment, told.fragment);
  ASSERT_TRUE(read.bootstrap_id);
  EXPECT_EQ(read.bootstrap_id->bytes, told.bootstrap_id->bytes);
  EXPECT_EQ(read.addresses, told.addresses);
}

TEST(Introduction, NamesTheRankWhoseBytesAreNone) {
  const auto bytes = encodeFields(someIntroduction());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const Status status = decodeIntroductions({bytes, cut}, 0).status();
    EXPECT_EQ(status.code(), Code::kRemoteError) << size;
    EXPECT_NE(status.message().find("a malformed introduction from rank 1"), std::string::npos) << size;
  }
}

TEST(Introduction, TellsWhichSettingsDiffer) {
  Introduction other = someIntroduction();
  other.settings = "HORING_ALGO=star";
  const Status status =
      decodeIntroductions({encodeFields(someIntroduction()), encodeFields(other)}, 0).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.message().find("rank 0 has HORING_ALGO=ring, rank 1 has HORING_ALGO=star"),
            std::string::npos)
      << status.toString();
}

// As for control messages: a change of these bytes raises the version of the protocol.
TEST(Introduction, IsTheSameBytesInEveryLibraryOfThisProtocol) {
  EXPECT_EQ(kProtocolVersion, 16u);
  EXPECT_EQ(hexText(Key::derive(encodeFields(someIntroduction()), "introduction").bytes),
            "bbf18119f4a1d8a62f388abf3030a37a756d940b96bf90043c29723b7e5a7f1a");
}

}  // namespace
}  // namespace horing
