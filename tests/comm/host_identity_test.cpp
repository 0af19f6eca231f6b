#include "comm/host_identity.h"

#include <gtest/gtest.h>

#include "base/auth.h"
#include "topology/cpu_mask.h"

namespace horing {
namespace {

Config configWith(const std::string& host_id, const std::string& group) {
  Config config = Config::fromLookup([](const char*) { return nullptr; }).take();
  config.host_id = host_id;
  config.group = group;
  return config;
}

TEST(HostIdentity, IsFoundHere) {
  const auto identity = findHostIdentity(configWith("", ""));
  ASSERT_TRUE(identity.ok()) << identity.status().toString();
  EXPECT_EQ(identity.value().pid, ::getpid());
  EXPECT_FALSE(identity.value().host_name.empty());
  EXPECT_FALSE(identity.value().cpus.empty());
  EXPECT_EQ(identity.value().nodeLabel(), findHostIdentity(configWith("", "")).take().nodeLabel());
}

TEST(HostIdentity, SurvivesItsEncoding) {
  HostIdentity identity = findHostIdentity(configWith("blade", "switch-7")).take();
  identity.shm_inode = 0xfedcba9876543210u;
  identity.cpus = {0, 31, kMaxCpus - 1};
  const auto bytes = encodeHostIdentity(identity);
  EXPECT_LE(bytes.size(), kMaxHostIdentityBytes);
  EXPECT_EQ(decodeHostIdentity(bytes).take(), identity);
}

TEST(HostIdentity, SeparatesNodesByEveryMarkOfThem) {
  const HostIdentity here = findHostIdentity(configWith("", "")).take();
  const auto differs = [&](auto change) {
    HostIdentity other = here;
    change(other);
    return other.nodeLabel() != here.nodeLabel();
  };
  EXPECT_TRUE(differs([](HostIdentity& o) { o.host_name += "x"; }));
  EXPECT_TRUE(differs([](HostIdentity& o) { o.boot_id += "x"; }));
  EXPECT_TRUE(differs([](HostIdentity& o) { ++o.ipc_namespace; }));
  EXPECT_TRUE(differs([](HostIdentity& o) { ++o.network_namespace; }));
  EXPECT_TRUE(differs([](HostIdentity& o) { ++o.shm_device; }));
  EXPECT_TRUE(differs([](HostIdentity& o) { ++o.shm_inode; }));
  EXPECT_FALSE(differs([](HostIdentity& o) { ++o.pid; }));
}

HostIdentity rankOn(const char* boot_id, std::vector<int32_t> cpus) {
  HostIdentity identity;
  identity.boot_id = boot_id;
  identity.cpus = std::move(cpus);
  return identity;
}

TEST(KernelLoads, CountCoresOnceHoweverRanksAreBound) {
  const auto shares = [](std::vector<HostIdentity> ranks) { return kernelLoads(ranks)["a"].sharesCores(); };
  EXPECT_FALSE(shares({rankOn("a", {0, 1}), rankOn("a", {0, 1})}));
  EXPECT_TRUE(shares({rankOn("a", {0, 1}), rankOn("a", {0, 1}), rankOn("a", {0, 1})}));
  EXPECT_FALSE(shares({rankOn("a", {3}), rankOn("a", {700}), rankOn("a", {0})})) << "each has its own";
  EXPECT_TRUE(shares({rankOn("a", {3}), rankOn("a", {3})}));
  EXPECT_FALSE(shares({rankOn("a", {3}), rankOn("b", {3})})) << "two machines";
  EXPECT_TRUE(shares({rankOn("a", {})})) << "who cannot tell may have none";
}

TEST(HostIdentity, CanBeOverridden) {
  const HostIdentity a = findHostIdentity(configWith("blade", "")).take();
  HostIdentity b = a;
  b.boot_id = "another kernel";
  EXPECT_EQ(a.nodeLabel(), b.nodeLabel());
  EXPECT_EQ(a.groupLabel(), b.groupLabel());
  b.group_override = "switch-7";
  EXPECT_EQ(a.nodeLabel(), b.nodeLabel());
  EXPECT_NE(a.groupLabel(), b.groupLabel());
  b.group_override = "blade";
  EXPECT_NE(a.groupLabel(), b.groupLabel()) << "a group and a node of one name are not the same thing";
}

TEST(HostIdentity, RefusesUnprintableAndOverlongNames) {
  EXPECT_EQ(findHostIdentity(configWith("a\nb", "")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(findHostIdentity(configWith("", std::string(201, 'x'))).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(findHostIdentity(configWith("", std::string(200, 'x'))).ok());
}

TEST(HostIdentity, OfHostileBytesIsRefused) {
  const auto bytes = encodeHostIdentity(findHostIdentity(configWith("", "")).take());
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decodeHostIdentity(std::span(bytes).first(length)).ok()) << length;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decodeHostIdentity(longer).ok());
  auto other_version = bytes;
  other_version[0] ^= std::byte{2};
  EXPECT_EQ(decodeHostIdentity(other_version).status().code(), Code::kInvalidUsage);
  std::vector<std::byte> noise(300);
  for (int round = 0; round < 200; ++round) {
    randomBytes(noise);
    noise[0] = bytes[0];
    noise[1] = noise[2] = noise[3] = std::byte{0};
    EXPECT_FALSE(decodeHostIdentity(noise).ok());
  }
}

}  // namespace
}  // namespace horing
