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

TEST(KernelSelection, TakesWhatTheUserNames) {
  EXPECT_EQ(chosen("ring", 1, "ring"), "ring");
  EXPECT_EQ(chosen("ring", 1, "serial_ring"), "serial_ring");
}

}  // namespace
}  // namespace horing
