#include "comm/rank_place.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

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

TEST(RankPlace, SurvivesItsEncoding) {
  const Fragment fragment = someFragment();
  const auto bytes = encodeFragment(fragment);
  const Result<Fragment> again = decodeFragment(bytes);
  ASSERT_TRUE(again.ok()) << again.status().toString();
  // Bandwidths travel as whole KB/s; once they did, they stay as they are.
  EXPECT_EQ(encodeFragment(again.value()), bytes);
  EXPECT_EQ(again.value().nodes[1].name, fragment.nodes[1].name);
  EXPECT_EQ(again.value().home, fragment.home);
  EXPECT_EQ(decodeFragment(encodeFragment(Fragment())).take(), Fragment());
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
  const auto bytes = encodeFragment(fragment);
  EXPECT_EQ(decodeFragment(bytes).take().links, fragment.links);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decodeFragment(std::span(bytes).first(size)).ok()) << size;
}

TEST(RankPlace, RefusesEveryTruncationAndSurvivesEveryError) {
  const auto bytes = encodeFragment(someFragment());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decodeFragment(std::span(bytes).first(size)).ok()) << size;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const int value : {0, 1, 0x7f, 0xff}) {
      std::vector<std::byte> wrong = bytes;
      wrong[at] = static_cast<std::byte>(value);
      const Result<Fragment> decoded = decodeFragment(wrong);
      if (!decoded.ok()) continue;
      const std::vector<Fragment> fragments = {decoded.value(), someFragment()};
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
  EXPECT_TRUE(nicDistances(Fragment()).empty()) << "nowhere in particular";
}

TEST(RankPlace, IsAnErrorWhereTheFileIs) {
  Config config = Config::fromLookup([](const char*) { return nullptr; }).take();
  EXPECT_TRUE(findFragment(config, 1).ok());
  config.topo_file = "/nowhere/machine.xml";
  EXPECT_NE(findFragment(config, 1).status().message().find("/nowhere/machine.xml"), std::string::npos);
}

}  // namespace
}  // namespace horing
