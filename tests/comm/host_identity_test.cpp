#include "comm/membership/host_identity.h"

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
  identity.quota = {1500, 0xfedcba9876543210u};
  for (int round = 0; round < 2; ++round) {
    HostIdentity read;
    EXPECT_TRUE(decodeFields(encodeFields(identity), read));
    EXPECT_EQ(read, identity);
    identity.gpu.emplace().uuid.fill(std::byte{7});
    identity.gpu->has_mps = true;
  }
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

TEST(HostIdentity, TellsProcessesApartThatHaveOneNumberInContainersOfTheirOwn) {
  const HostIdentity here = findHostIdentity(configWith("", "")).take();
  EXPECT_NE(here.pid_namespace, 0U);
  EXPECT_EQ(here.processLabel(), findHostIdentity(configWith("", "")).take().processLabel());
  HostIdentity other = here;
  ++other.pid_namespace;
  EXPECT_NE(other.processLabel(), here.processLabel());
  other = here;
  ++other.pid;
  EXPECT_NE(other.processLabel(), here.processLabel());
}

HostIdentity rankOn(const char* boot_id, std::vector<int32_t> cpus) {
  HostIdentity identity;
  identity.boot_id = boot_id;
  identity.cpus = std::move(cpus);
  return identity;
}

TEST(KernelLoads, CountCoresOnceHoweverRanksAreBound) {
  const auto shares = [](std::vector<HostIdentity> ranks) { return kernelLoads(ranks)["a"].shares_cores; };
  EXPECT_FALSE(shares({rankOn("a", {0, 1}), rankOn("a", {0, 1})}));
  EXPECT_TRUE(shares({rankOn("a", {0, 1}), rankOn("a", {0, 1}), rankOn("a", {0, 1})}));
  EXPECT_FALSE(shares({rankOn("a", {3}), rankOn("a", {700}), rankOn("a", {0})})) << "each has its own";
  EXPECT_TRUE(shares({rankOn("a", {3}), rankOn("a", {3})}));
  EXPECT_FALSE(shares({rankOn("a", {3}), rankOn("b", {3})})) << "two machines";
  EXPECT_TRUE(shares({rankOn("a", {})})) << "who cannot tell may have none";
}

TEST(KernelLoads, SeeRanksBoundTogetherBesideOthersThatHaveRoom) {
  const auto shares = [](std::vector<HostIdentity> ranks) { return kernelLoads(ranks)["a"].shares_cores; };
  const HostIdentity free = rankOn("a", {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(shares({rankOn("a", {0}), rankOn("a", {0}), rankOn("a", {0}), free}));
  EXPECT_TRUE(shares({rankOn("a", {0, 1}), rankOn("a", {0}), rankOn("a", {1}), free}));
  EXPECT_FALSE(shares({rankOn("a", {0, 1}), rankOn("a", {0}), rankOn("a", {2}), free}));
}

HostIdentity limitedTo(int32_t millicpus, uint64_t group) {
  HostIdentity identity = rankOn("a", {0, 1, 2, 3, 4, 5, 6, 7});
  identity.quota = {millicpus, group};
  return identity;
}

TEST(KernelLoads, CountWhatControlGroupsLeave) {
  const auto load = [](std::vector<HostIdentity> ranks) { return kernelLoads(ranks)["a"]; };
  const HostIdentity free = rankOn("a", {0, 1, 2, 3, 4, 5, 6, 7}), two = limitedTo(2000, 5);
  EXPECT_FALSE(load({two, two}).shares_cores);
  EXPECT_EQ(load({two, two}).cores, 2);
  EXPECT_TRUE(load({two, two, two}).shares_cores);
  EXPECT_FALSE(load({two, two, limitedTo(2000, 6), limitedTo(2000, 6)}).shares_cores) << "two containers";
  EXPECT_EQ(load({two, limitedTo(2000, 6)}).cores, 4);
  EXPECT_EQ(load({two, free}).cores, 8) << "there are no more";
  EXPECT_TRUE(load({two, two, two, free}).shares_cores);
  EXPECT_EQ(load({limitedTo(300, 5)}).cores, 1);
  EXPECT_TRUE(load({limitedTo(1900, 5), limitedTo(1900, 5)}).shares_cores);
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
  const auto refuses = [](std::span<const std::byte> bytes) {
    HostIdentity read;
    return !decodeFields(bytes, read);
  };
  const HostIdentity found = findHostIdentity(configWith("", "")).take();
  const auto bytes = encodeFields(found);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_TRUE(refuses(std::span(bytes).first(length))) << length;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refuses(longer));
  HostIdentity wrong = found;
  wrong.pid = -1;
  EXPECT_TRUE(refuses(encodeFields(wrong)));
  wrong = found;
  wrong.quota.millicpus = -1;
  EXPECT_TRUE(refuses(encodeFields(wrong)));
  std::vector<std::byte> noise(300);
  for (int round = 0; round < 200; ++round) {
    randomBytes(noise);
    EXPECT_TRUE(refuses(noise));
  }
}

}  // namespace
}  // namespace horing
