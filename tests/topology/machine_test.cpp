#include "topology/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../temporary_folder.h"

namespace horing {
namespace {

TEST(Machine, IsFoundHere) {
  const Result<Machine> machine = findMachine();
  ASSERT_TRUE(machine.ok()) << machine.status().toString();
  EXPECT_GE(machine.value().processing_units, 1);
  EXPECT_GE(machine.value().usable_units, 1);
  EXPECT_LE(machine.value().usable_units, machine.value().processing_units);
  EXPECT_GT(machine.value().memory_bytes, 0u);
}

TEST(Machine, IsWhatHwlocIsToldThatItIs) {
  ::setenv("HWLOC_SYNTHETIC", "pack:2 numa:2 core:8 pu:2", 1);
  const Result<Machine> machine = findMachine();
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_TRUE(machine.ok()) << machine.status().toString();
  EXPECT_EQ(machine.value().packages, 2);
  EXPECT_EQ(machine.value().numa_nodes, 4);
  EXPECT_EQ(machine.value().cores, 32);
  EXPECT_EQ(machine.value().processing_units, 64);
  EXPECT_EQ(machine.value().describe().rfind("2 packages, 4 NUMA nodes, 32 cores", 0), 0u)
      << machine.value().describe();
}

TEST(Machine, CountsOnlyTheUnitsThisThreadMayUse) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usableProcessingUnits(), 1);
  }).join();
}

class Interfaces : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  const test::TemporaryFolder folder_;
  const std::filesystem::path& root_ = folder_.path();
};

TEST_F(Interfaces, AreReadWithTheirSpeeds) {
  write("eth1/flags", "0x1003");
  write("eth1/speed", "25000");
  write("eth1/device/numa_node", "1");
  write("eth0/flags", "0x1002");
  write("eth0/speed", "-1");
  write("lo/flags", "0x9");
  write("bonding_masters", "bond0");
  const std::vector<NetworkInterface> found = readInterfaces(root_.string());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "eth0");
  EXPECT_FALSE(found[0].up);
  EXPECT_EQ(found[0].speed_mbit, 0);
  EXPECT_EQ(found[0].numa_node, -1);
  EXPECT_EQ(found[1].name, "eth1");
  EXPECT_TRUE(found[1].up);
  EXPECT_EQ(found[1].speed_mbit, 25000);
  EXPECT_EQ(found[1].numa_node, 1);
  EXPECT_TRUE(found[2].loopback);
}

TEST_F(Interfaces, OfAMissingDirectoryAreNone) {
  EXPECT_TRUE(readInterfaces((root_ / "none").string()).empty());
}

}  // namespace
}  // namespace horing
