#include "comm/membership/rank_place.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>

#include "../topology/fake_root.h"
#include "topology/topology_file.h"

namespace horing {
namespace {

Fragment someFragment() {
  const Result<MachineGraph> graph = graphFromText(
      "<system><cpu numaid=\"0\" affinity=\"1\"><pci busid=\"0000:01:00.0\" link_speed=\"16 GT/s\"><nic>"
      "<net name=\"mlx5_0\" speed=\"200000\"/></nic></pci></cpu><cpu numaid=\"1\" affinity=\"2\"/></system>");
  EXPECT_TRUE(graph.ok()) << graph.status().toString();
  return fragmentOf(graph.value(), homeOf(graph.value(), {1}));
}

// Nothing: the bytes are no fragment.
std::optional<Fragment> decoded(std::span<const std::byte> bytes) {
  Fragment fragment;
  return decodeFields(bytes, fragment) ? std::optional(fragment) : std::nullopt;
}

TEST(RankPlace, SurvivesItsEncoding) {
  const Fragment fragment = someFragment();
  const auto bytes = encodeFields(fragment);
  const Fragment again = decoded(bytes).value();
  // Bandwidths travel as whole KB/s; once they did, they stay as they are.
  EXPECT_EQ(encodeFields(again), bytes);
  EXPECT_EQ(again.nodes[1].name, fragment.nodes[1].name);
  EXPECT_EQ(again.home, fragment.home);
  EXPECT_EQ(decoded(encodeFields(Fragment())), Fragment());
}

constexpr const char* kGpus =
    "<system><cpu numaid=\"0\" affinity=\"1\">"
    "<pci busid=\"0000:3b:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"70\">"
    "<nvlink target=\"0000:5e:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>"
    "<pci busid=\"0000:5e:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"70\">"
    "<nvlink target=\"0000:3b:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci></cpu></system>";

TEST(RankPlace, IsAtTheGpuThatTheRankComputesOn) {
  const std::string path = ::testing::TempDir() + "horing_rank_place.xml";
  std::ofstream(path) << kGpus;
  Config config = Config::fromLookup([](const char*) { return nullptr; }).take();
  config.topo_file = path;
  const Result<Fragment> found = findFragment(config, 1, "0000:5e:00.0");
  std::remove(path.c_str());
  ASSERT_TRUE(found.ok()) << found.status().toString();
  const Fragment& fragment = found.value();
  EXPECT_EQ(fragment.nodes[static_cast<size_t>(fragment.home)].bus, "0000:5e:00.0");
  ASSERT_EQ(fragment.links.size(), 1u);
  EXPECT_EQ(fragment.links[0].name, "0000:3b:00.0");
  const auto bytes = encodeFields(fragment);
  EXPECT_EQ(decoded(bytes).value().links, fragment.links);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decoded(std::span(bytes).first(size))) << size;
}

TEST(RankPlace, RefusesEveryTruncationAndSurvivesEveryError) {
  const auto bytes = encodeFields(someFragment());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decoded(std::span(bytes).first(size))) << size;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const int value : {0, 1, 0x7f, 0xff}) {
      std::vector<std::byte> wrong = bytes;
      wrong[at] = static_cast<std::byte>(value);
      const std::optional<Fragment> read = decoded(wrong);
      if (!read) continue;
      const std::vector<Fragment> fragments = {*read, someFragment()};
      EXPECT_EQ(layJob(std::vector<std::string>(2, "a"), fragments).precedence.size(), 2u);
    }
}

TEST(RankPlace, SaysHowFarAwayNicsAre) {
  const Result<MachineGraph> graph = graphFromText(
      "<system><cpu numaid=\"0\" affinity=\"1\"><pci busid=\"0000:01:00.0\"><nic><net "
      "name=\"mlx5_0\"/></nic></pci></cpu>"
      "<cpu numaid=\"1\" affinity=\"2\"><pci busid=\"0000:81:00.0\"><nic><net "
      "name=\"mlx5_1\"/></nic></pci></cpu></system>");
  ASSERT_TRUE(graph.ok()) << graph.status().toString();
  for (const int32_t cpu : {0, 1}) {
    std::map<std::string, int> far = nicDistances(fragmentOf(graph.value(), homeOf(graph.value(), {cpu})));
    ASSERT_EQ(far.size(), 2u);
    EXPECT_LT(far[cpu == 0 ? "mlx5_0" : "mlx5_1"], far[cpu == 0 ? "mlx5_1" : "mlx5_0"]) << "from CPU " << cpu;
  }
  std::map<std::string, int> far = nicDistances(fragmentOf(graph.value(), 0));
  EXPECT_EQ(far["mlx5_0"], far["mlx5_1"]) << "from nowhere in particular";
}

using RankPlaceIn = FakeRoot;

// A rank that may run on every CPU does not look at the machine, and yet leaves lines for maintenance alone.
TEST_F(RankPlaceIn, NowhereInParticularKnowsSlowNics) {
  const std::pair<const char*, const char*> interfaces[] = {
      {"eth0", "1000"}, {"ens1", "100000"}, {"ens2", "50000"}, {"br0", "-1"}, {"old", "4294967295"}};
  for (const auto& [name, speed] : interfaces) {
    write(std::string("class/net/") + name + "/flags", "0x1003");
    write(std::string("class/net/") + name + "/speed", speed);
  }
  write("class/net/lo/flags", "0x9");
  write("class/net/down/flags", "0x1002");
  write("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  write("class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)\n");
  std::map<std::string, int> far = nicDistances(Fragment(), root_);
  ASSERT_EQ(far.size(), 7u);
  for (const char* fast : {"ens1", "ens2", "br0", "old", "mlx5_0"}) EXPECT_EQ(far[fast], 0) << fast;
  EXPECT_GT(far["eth0"], 0);
  EXPECT_GT(far["mlx5_1"], 0);
  EXPECT_TRUE(nicDistances(Fragment(), root_ / "nowhere").empty());
}

TEST(RankPlace, PrefersFastNicsToNearOnesOfAnotherKind) {
  const auto distances = [](int speed0, int speed1) {
    const Result<MachineGraph> graph =
        graphFromText(formatString("<system><cpu numaid=\"0\" affinity=\"1\"><pci "
                                   "busid=\"0000:01:00.0\"><nic><net name=\"eth0\" speed=\"%d\"/>"
                                   "</nic></pci></cpu><cpu numaid=\"1\" affinity=\"2\"><pci "
                                   "busid=\"0000:81:00.0\"><nic><net name=\"eth1\" "
                                   "speed=\"%d\"/></nic></pci></cpu></system>",
                                   speed0, speed1));
    EXPECT_TRUE(graph.ok()) << graph.status().toString();
    return nicDistances(fragmentOf(graph.value(), homeOf(graph.value(), {0})));
  };
  EXPECT_LT(distances(50'000, 100'000)["eth0"], distances(50'000, 100'000)["eth1"]);
  EXPECT_GT(distances(1000, 100'000)["eth0"], distances(1000, 100'000)["eth1"]) << "for maintenance only";
}

TEST(RankPlace, KnowsNothingOfNicsThatAreNowhere) {
  GraphNode numa{NodeKind::kNuma, 0, "0"}, bond{NodeKind::kNic, 0, "bond0"}, nic{NodeKind::kNic, 1, "eth0"};
  Fragment fragment;
  fragment.nodes.insert(fragment.nodes.end(), {numa, bond, nic});
  fragment.home = 1;
  const std::map<std::string, int> distances = nicDistances(fragment);
  EXPECT_TRUE(distances.contains("eth0"));
  EXPECT_FALSE(distances.contains("bond0"));
}

// hwloc's description of a DGX-2 with switches below switches, where this GPU becomes an RDMA device.
void becomeNic(std::string& xml, const std::string& bus, int gpu, const std::string& nic) {
  const auto replace = [&](const std::string& what, const std::string& with) {
    const size_t at = xml.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    xml.replace(at, what.size(), with);
  };
  replace(bus + "\" pci_type=\"0302 [10de:1db8]", bus + "\" pci_type=\"0207 [15b3:1017]");
  replace("name=\"nvml" + std::to_string(gpu) + "\" osdev_type=\"5\"",
          "name=\"" + nic + "\" osdev_type=\"3\"");
}

TEST(RankPlace, CountsSwitchesBetweenAGpuAndNics) {
  std::ostringstream text;
  text << std::ifstream(HORING_MACHINES "/nvidia-dgx2.xml").rdbuf();
  std::string xml = text.str();
  becomeNic(xml, "0000:36:00.0", 1, "same_switch");
  becomeNic(xml, "0000:3b:00.0", 3, "switch_beside");
  becomeNic(xml, "0000:59:00.0", 5, "same_numa");
  becomeNic(xml, "0000:5e:00.0", 7, "same_numa_too");
  becomeNic(xml, "0000:b9:00.0", 9, "far");
  ASSERT_FALSE(HasFatalFailure());
  const Result<MachineGraph> graph = graphFromText(xml);
  ASSERT_TRUE(graph.ok()) << graph.status().toString();
  const std::optional<int32_t> gpu = graph.value().find(NodeKind::kGpu, "0000:34:00.0");
  ASSERT_TRUE(gpu);
  std::map<std::string, int> from_gpu = nicDistances(fragmentOf(graph.value(), *gpu));
  ASSERT_EQ(from_gpu.size(), 5u);
  EXPECT_LT(from_gpu["same_switch"], from_gpu["switch_beside"]);
  EXPECT_LT(from_gpu["switch_beside"], from_gpu["same_numa"]);
  EXPECT_EQ(from_gpu["same_numa"], from_gpu["same_numa_too"]);
  EXPECT_LT(from_gpu["same_numa"], from_gpu["far"]);
  // To a rank that computes on CPUs all of its NUMA node are alike.
  const int32_t numa = graph.value().within(*gpu, NodeKind::kNuma);
  std::map<std::string, int> from_numa = nicDistances(fragmentOf(graph.value(), numa));
  EXPECT_EQ(from_numa["same_switch"], from_numa["same_numa"]);
  EXPECT_LT(from_numa["same_numa"], from_numa["far"]);
}

TEST(RankPlace, IsAnErrorWhereTheFileIs) {
  Config config = Config::fromLookup([](const char*) { return nullptr; }).take();
  EXPECT_TRUE(findFragment(config, 1).ok());
  config.topo_file = "/nowhere/machine.xml";
  EXPECT_NE(findFragment(config, 1).status().message().find("/nowhere/machine.xml"), std::string::npos);
}

}  // namespace
}  // namespace horing
