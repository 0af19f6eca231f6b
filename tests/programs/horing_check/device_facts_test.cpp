// The facts of devices, and their errors, from a tree of files like /sys.
#include "horing_check/device_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../../temporary_folder.h"

namespace horing::check {
namespace {

namespace fs = std::filesystem;

class DeviceFacts : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string sys() const { return folder_.path().string(); }
  NodeFacts facts() const {
    NodeFacts all;
    addDeviceFacts(all, {"eth0"}, sys());
    return all;
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(DeviceFacts, OfNothingAreNone) {
  EXPECT_TRUE(facts().empty());
}

TEST_F(DeviceFacts, AreThoseOfAdaptersAndGpus) {
  write("class/net/eth0/mtu", "9000");
  write("class/net/eth0/operstate", "up");
  write("class/net/eth0/device/current_link_speed", "16.0 GT/s PCIe");
  write("class/net/eth0/device/current_link_width", "8");
  write("class/net/eth1/mtu", "1500");
  write("class/infiniband/mlx5_0/fw_ver", "28.39.1002");
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  for (const char* const address : {"0000:3b:00.0", "0000:5e:00.0", "0000:01:00.0"}) {
    const std::string device = std::string("bus/pci/devices/") + address;
    const bool is_gpu = std::string(address) != "0000:01:00.0";
    write(device + "/class", is_gpu ? "0x030200" : "0x020000");
    write(device + "/vendor", "0x10de");
    write(device + "/device", "0x2330");
    write(device + "/current_link_width", "16");
  }
  for (const char* const node : {"node0", "node1"})
    write(std::string("devices/system/node/") + node + "/x", "");
  write("devices/system/node/possible", "0-1");
  EXPECT_EQ(facts(), (NodeFacts{{"MTU of eth0", "9000"},
                                {"state of eth0", "up"},
                                {"PCIe of eth0", "16.0 GT/s PCIe, 8 lanes"},
                                {"firmware of mlx5_0", "28.39.1002"},
                                {"rate of mlx5_0 port 1", "400 Gb/sec (4X NDR)"},
                                {"GPUs", "2 of 0x10de:0x2330"},
                                {"PCIe lanes of GPUs", "16"},
                                {"NUMA nodes", "2"}}));
}

TEST_F(DeviceFacts, SayWhatMayNotBeRead) {
  write("class/net/eth0/mtu", "9000");
  const std::string file = sys() + "/class/net/eth0/mtu";
  EXPECT_EQ(factIn(file), "9000");
  EXPECT_EQ(factIn(sys() + "/nothing"), "");
  fs::permissions(file, fs::perms::none);
  const bool may_read_all = geteuid() == 0;
  if (may_read_all) {
    fs::permissions(sys(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
    if (seteuid(65534) != 0) GTEST_SKIP() << "there is no other user in this user namespace";
  }
  const NodeFacts all = facts();
  if (may_read_all) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(all, (NodeFacts{{"MTU of eth0", kNoRights}}));
}

TEST_F(DeviceFacts, NameTheGpuWithFewerLanes) {
  for (int gpu = 0; gpu < 8; ++gpu) {
    const std::string device = "bus/pci/devices/0000:0" + std::to_string(gpu) + ":00.0";
    write(device + "/class", "0x030200");
    write(device + "/current_link_width", gpu == 5 ? "8" : "16");
  }
  EXPECT_EQ(facts().at("PCIe lanes of GPUs"), "16, but 8 on 0000:05:00.0");
}

// Eight GPUs, whose buses have the node's number before their own: nodes may number them differently.
std::vector<GpuState> gpusOf(int node) {
  std::vector<GpuState> gpus;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const std::string address = "0000:" + std::to_string(node) + std::to_string(gpu) + ":00.0";
    gpus.push_back({address, 1980, 2619, 5, 700000, true, 0, 0});
  }
  return gpus;
}

// What differs between eight nodes, of which `plant` changes the GPUs of node 3.
template <typename Plant>
std::vector<std::string> differencesWith(const Plant& plant) {
  std::vector<NodeFacts> nodes(8);
  for (int node = 0; node < 8; ++node) {
    std::vector<GpuState> gpus = gpusOf(node);
    if (node == 3) plant(gpus);
    addGpuStates(nodes[static_cast<size_t>(node)], gpus);
  }
  std::vector<std::string> found;
  for (const Difference& difference : differences(nodes)) {
    EXPECT_EQ(difference.nodes, std::vector{3});
    found.push_back(difference.name + ": " + difference.value + "; " + difference.usual);
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(GpuStates, OfNodesWithEqualGpusDoNotDiffer) {
  EXPECT_EQ(differencesWith([](auto&) {}), Texts());
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus.pop_back(); }), Texts())
      << "the count is a fact of its own";
}

TEST(GpuStates, NameTheGpuThatDiffers) {
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[5].slowed_by = kSlowedByHeat | kSlowedByHardware; }),
            Texts{"GPUs are slowed down by: nothing, but heat on 0000:35:00.0; nothing"});
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[2].ecc_errors = 3; }),
            Texts{"uncorrected ECC errors of GPUs: 0, but 3 on 0000:32:00.0; 0"});
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[0].pcie_generation = gpus[1].pcie_generation = 3; }),
            Texts{"PCIe generation of GPUs: 5, but 3 on 0000:30:00.0, 0000:31:00.0; 5"});
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[7].ecc = false; }),
            Texts{"ECC of GPUs: on, but off on 0000:37:00.0; on"});
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[6].ecc_errors.reset(); }),
            Texts{"uncorrected ECC errors of GPUs: 0, but unknown on 0000:36:00.0; 0"});
  EXPECT_EQ(differencesWith([](auto& gpus) {
              gpus.resize(2);
              gpus[1].slowed_by = kSlowedByHeat;
            }),
            Texts{"GPUs are slowed down by: heat on 0000:31:00.0, nothing on 0000:30:00.0; nothing"})
      << "neither is that of most";
  EXPECT_EQ(differencesWith([](auto& gpus) {
              for (GpuState& gpu : gpus) gpu.power_limit_mw = 350000;
            }),
            Texts{"power limit of GPUs in mW: 350000; 700000"});
  EXPECT_EQ(differencesWith([](auto& gpus) { gpus[7].sm_mhz = 1410, gpus[7].slowed_by = kSlowedByHardware; }),
            (Texts{"GPUs are slowed down by: nothing, but the hardware on 0000:37:00.0; nothing",
                   "highest clock of GPUs in MHz: 1980, but 1410 on 0000:37:00.0; 1980"}));
}

TEST(GpuStates, ThatTheDriverDoesNotTellAreNoFacts) {
  NodeFacts facts;
  GpuState gpu;
  gpu.gpu = "0000:3b:00.0";
  addGpuStates(facts, {gpu});
  addGpuStates(facts, {});
  EXPECT_TRUE(facts.empty());
}

TEST_F(DeviceFacts, TellWhichErrorsWereCountedMeanwhile) {
  const auto read = [&] { return readErrorCounters({"eth0"}, sys()); };
  EXPECT_TRUE(read().empty());
  write("class/net/eth0/statistics/rx_crc_errors", "5");
  write("class/net/eth0/statistics/rx_packets", "5");
  write("class/net/eth0/carrier_down_count", "1");
  write("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "0");
  const ErrorCounters before = read();
  EXPECT_EQ(before.size(), 3u);
  EXPECT_TRUE(grownSince(before, read()).empty());
  write("class/net/eth0/statistics/rx_crc_errors", "12");
  write("class/net/eth0/statistics/rx_packets", "99");
  write("class/net/eth0/carrier_down_count", "0");  // the driver was loaded anew
  write("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "3");
  EXPECT_EQ(grownSince(before, read()),
            (ErrorCounters{{"rx_crc_errors of eth0", 7}, {"symbol_error of mlx5_0 port 1", 3}}));
}

}  // namespace
}  // namespace horing::check
