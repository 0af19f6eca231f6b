// The facts of devices, and their errors, from a tree of files like /sys.
#include "horing_check/device_facts.h"

#include <gtest/gtest.h>

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
                                {"PCIe lanes of GPUs", "2 of 16"},
                                {"NUMA nodes", "2"}}));
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
