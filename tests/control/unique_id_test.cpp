#include "control/unique_id.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include "control/host_addresses.h"

namespace horing {
namespace {

Endpoint addressOf(const std::string& host, uint16_t port) {
  Endpoint address = resolveHost({host, 1}).take().front();
  address.port = port;
  return address;
}

UniqueIdParts someParts() {
  UniqueIdParts parts;
  randomBytes(parts.job);
  parts.key = Key::random();
  parts.roots = {addressOf("10.0.0.2", 4711), addressOf("2001:db8::1", 65535)};
  return parts;
}

TEST(UniqueId, KeepsWhatWasPutIn) {
  const UniqueIdParts parts = someParts();
  const UniqueIdParts back = decodeUniqueId(encodeUniqueId(parts).take()).take();
  EXPECT_EQ(back.job, parts.job);
  EXPECT_EQ(back.key.bytes, parts.key.bytes);
  EXPECT_EQ(back.roots, parts.roots);
  EXPECT_EQ(back.roots[0].text(), "10.0.0.2:4711");
  EXPECT_EQ(back.roots[1].text(), "[2001:db8::1]:65535");
  const Endpoint local = randomLocalEndpoint();
  EXPECT_NE(local, randomLocalEndpoint());
  EXPECT_EQ(decodeUniqueId(encodeUniqueId({parts.job, parts.key, {local}}).take()).take().roots,
            std::vector<Endpoint>{local});
}

TEST(UniqueId, TakesAsManyAddressesAsFit) {
  UniqueIdParts parts = someParts();
  parts.roots.assign(20, addressOf("10.0.0.2", 1));
  EXPECT_EQ(decodeUniqueId(encodeUniqueId(parts).take()).take().roots.size(), 9u);
  parts.roots.assign(5, addressOf("2001:db8::1", 1));
  parts.roots.push_back(addressOf("10.0.0.2", 1));
  EXPECT_EQ(decodeUniqueId(encodeUniqueId(parts).take()).take().roots.size(), 4u);
}

TEST(UniqueId, EndsWithAZeroWhateverItHolds) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(encodeUniqueId(someParts()).take().bytes.back(), std::byte{0});
}

TEST(UniqueId, KeepsTheInterfaceThatAnAddressNames) {
  UniqueIdParts parts = someParts();
  parts.roots = {addressOf("fe80::1", 4711), addressOf("169.254.0.1", 4711)};
  parts.roots[0].address.scope = 7;
  parts.roots[1].address.scope = 1u << 31;
  EXPECT_EQ(decodeUniqueId(encodeUniqueId(parts).take()).take().roots, parts.roots);
}

TEST(HostAddresses, AreBehindEachInterfaceWhereTheyNameNone) {
  const Endpoint elsewhere = addressOf("10.0.0.2", 1);
  Endpoint named = addressOf("fe80::1", 1);
  named.address.scope = 7;
  EXPECT_EQ(behindEachInterface({elsewhere, named}), (std::vector<Endpoint>{elsewhere, named}));
  EXPECT_EQ(addressOf("fe80::1%lo", 1).address.scope, ::if_nametoindex("lo"));
}

TEST(UniqueId, NeedsAnAddressWithAPort) {
  UniqueIdParts parts = someParts();
  parts.roots[0].port = 0;
  EXPECT_EQ(encodeUniqueId(parts).status().code(), Code::kInvalidArgument);
  parts.roots.clear();
  EXPECT_EQ(encodeUniqueId(parts).status().code(), Code::kInvalidArgument);
}

TEST(UniqueId, NoticesEveryDamagedByte) {
  const UniqueId id = encodeUniqueId(someParts()).take();
  for (size_t at = 0; at < kUniqueIdBytes; ++at) {
    for (const unsigned flip : {1u, 0x80u, 0xffu}) {
      UniqueId damaged = id;
      damaged.bytes[at] ^= static_cast<std::byte>(flip);
      EXPECT_FALSE(decodeUniqueId(damaged).ok()) << "byte " << at;
    }
  }
  EXPECT_EQ(decodeUniqueId(UniqueId{}).status().code(), Code::kInvalidArgument);
}

TEST(UniqueId, SurvivesHexadecimal) {
  const UniqueId id = encodeUniqueId(someParts()).take();
  const std::string hex = uniqueIdToHex(id);
  EXPECT_EQ(hex.size(), 256u);
  EXPECT_EQ(uniqueIdFromHex(hex).take(), id);
  EXPECT_FALSE(uniqueIdFromHex(hex.substr(1)).ok());
  EXPECT_FALSE(uniqueIdFromHex("g" + hex.substr(1)).ok());
}

TEST(JobKey, DependsOnKeyJobAndPurposeButNotOnAddresses) {
  UniqueIdParts parts = someParts();
  const auto key = [](const UniqueIdParts& p, const char* purpose) { return jobKey(p, purpose).bytes; };
  const auto before = key(parts, "control");
  EXPECT_NE(before, key(parts, "data"));
  parts.roots.pop_back();
  EXPECT_EQ(before, key(parts, "control"));
  UniqueIdParts other = parts;
  other.job[15] ^= std::byte{1};
  EXPECT_NE(before, key(other, "control"));
  other = parts;
  other.key.bytes[0] ^= std::byte{1};
  EXPECT_NE(before, key(other, "control"));
}

TEST(HostPort, IsReadInAllItsForms) {
  EXPECT_EQ(parseHostPort("node-a:4711", "X").take().host, "node-a");
  EXPECT_EQ(parseHostPort("[2001:db8::1]:80", "X").take().host, "2001:db8::1");
  EXPECT_EQ(parseHostPort("2001:db8::1:80", "X").take().port, 80);
  for (const char* wrong : {"", "node", ":1", "node:", "node:0", "node:65536", "node:12x", "node:-1"}) {
    const auto parsed = parseHostPort(wrong, "HORING_ROOT");
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << wrong;
    EXPECT_NE(parsed.status().message().find("HORING_ROOT="), std::string::npos);
  }
}

}  // namespace
}  // namespace horing
