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

// A value that is not the default, and that fits the defaults of the others.
Result<Config> withAnother(const ConfigVariable& variable) {
  const std::string_view kind = variable.kind, allowed = variable.allowed;
  std::vector<std::string> values;
  if (kind == "Text") values = {"other"};
  if (kind == "Int") {
    const auto [least, most] = rangeOf(variable.name);
    values = {std::to_string(least), std::to_string(most)};
  }
  for (size_t begin = 0; kind != "Int" && begin < allowed.size(); begin = allowed.find('|', begin) + 1) {
    values.emplace_back(allowed.substr(begin, allowed.find('|', begin) - begin));
    if (allowed.find('|', begin) == std::string_view::npos) break;
  }
  Result<Config> config = makeStatus(Code::kInternalError, "no other value");
  for (const std::string& value : values) {
    if (value == variable.fallback) continue;
    config = Config::fromLookup(
        [&](const char* name) { return name == std::string_view(variable.name) ? value.c_str() : nullptr; });
    if (config.ok()) break;
  }
  return config;
}

TEST(Introduction, TellsOfEverySettingThatRanksMustShare) {
  const auto settings_of = [](const Config& config, uint64_t digest) {
    CommunicatorOptions options;
    options.config = config;
    return settingsText(options, digest);
  };
  const Config usual = Config::fromLookup([](const char*) { return nullptr; }).take();
  Introduction mine = someIntroduction(), theirs = someIntroduction();
  mine.settings = settings_of(usual, 1);
  int shared = 0;
  for (const ConfigVariable& variable : configVariables()) {
    const Result<Config> other = withAnother(variable);
    ASSERT_TRUE(other.ok()) << variable.name << ": " << other.status().toString();
    theirs.settings = settings_of(other.value(), 1);
    const Status met = decodeIntroductions({encodeFields(mine), encodeFields(theirs)}, 0).status();
    EXPECT_EQ(met.code(), variable.sharing == Sharing::kShared ? Code::kInvalidUsage : Code::kOk)
        << variable.name;
    if (variable.sharing != Sharing::kShared) continue;
    ++shared;
    EXPECT_NE(met.message().find(variable.name), std::string::npos) << met.toString();
  }
  EXPECT_GE(shared, 13);
  theirs.settings = settings_of(usual, 2);
  EXPECT_FALSE(decodeIntroductions({encodeFields(mine), encodeFields(theirs)}, 0).ok()) << "other tables";
}

// As for control messages: a change of these bytes raises the version of the protocol.
TEST(Introduction, IsTheSameBytesInEveryLibraryOfThisProtocol) {
  EXPECT_EQ(kProtocolVersion, 21u);
  EXPECT_EQ(hexText(Key::derive(encodeFields(someIntroduction()), "introduction").bytes),
            "0d02367a105b755a4cfb83acf67d01fa580160d6b120b344e88e2bb82c83b1da");
}

}  // namespace
}  // namespace horing
