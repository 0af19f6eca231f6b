#include "comm/gpu/kernel_selection.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

// What kernels run of an all-reduce of so many float32, where hosts would run `of_hosts` and one window takes 4 KiB.
std::string chosen(const char* of_hosts, size_t count, const char* forced = "auto") {
  const GroupMap map = GroupMap::blocks(1, 4);
  Config config;
  config.algorithm = forced;
  const auto made = KernelSelection::make(config, map, false);
  if (!made.ok()) return made.status().toString();
  const KernelSelection& selection = made.value();
  const Selection hosts = selectionOf(*findAlgorithm(of_hosts), map);
  return std::string(selection.choose({.count = count}, 4096, hosts).algorithm->name);
}

TEST(KernelSelection, TakesARingInOneLaneUpToAWindow) {
  EXPECT_EQ(chosen("ring", 1024), "serial_ring");
  EXPECT_EQ(chosen("ring", 1025), "ring");
  EXPECT_EQ(chosen("direct", 1), "direct");
}

TEST(KernelSelection, TakesGroupsOfDifferentSizesAsHostsDo) {
  const std::string labels[] = {"a", "a", "a", "a", "b", "b", "b"};
  const GroupMap map = GroupMap::fromLabels(labels).take();
  const KernelSelection kernels = KernelSelection::make(Config(), map, false).take();
  for (const char* name : {"ho_ring", "ho_chain"}) {
    const Selection hosts = selectionOf(*findAlgorithm(name), map);
    const Selection& chosen = kernels.choose({.count = 1 << 20}, 4096, hosts);
    EXPECT_EQ(chosen.algorithm, hosts.algorithm);
    EXPECT_TRUE(chosen.shape.rails);
  }
  Selection shares = selectionOf(*findAlgorithm("ho_shares"), map);
  shares.shape.shares = Shares({Shares::kWhole, 0});
  EXPECT_EQ(kernels.choose({.count = 1 << 20}, 4096, shares).algorithm, findAlgorithm("ring"));
}

TEST(KernelSelection, TakesWhatTheUserNames) {
  EXPECT_EQ(chosen("ring", 1, "ring"), "ring");
  EXPECT_EQ(chosen("ring", 1, "serial_ring"), "serial_ring");
}

}  // namespace
}  // namespace horing
