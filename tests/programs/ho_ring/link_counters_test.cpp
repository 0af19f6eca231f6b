#include "ho_ring/link_counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace horing::bench {
namespace {

namespace fs = std::filesystem;

class LinkCounters : public ::testing::Test {
 protected:
  LinkCounters() : root_(fs::path(::testing::TempDir()) / ("net_" + std::to_string(getpid()))) {}
  ~LinkCounters() override { fs::remove_all(root_); }

  void addInterface(const std::string& name, const std::string& received, const std::string& sent) {
    const fs::path statistics = root_ / name / "statistics";
    fs::create_directories(statistics);
    std::ofstream(statistics / "rx_bytes") << received;
    std::ofstream(statistics / "tx_bytes") << sent;
  }

  fs::path root_;
};

TEST_F(LinkCounters, AddUpAllInterfacesButTheLoopback) {
  addInterface("lo", "1000000\n", "1000000\n");
  addInterface("r0", "10\n", "200\n");
  addInterface("r1", "1\n", "18446744073709551000\n");
  std::ofstream(root_ / "bonding_masters") << "\n";
  const Result<LinkBytes> bytes = readLinkBytes(root_);
  ASSERT_TRUE(bytes.ok()) << bytes.status().toString();
  EXPECT_EQ(bytes.value().received, 11u);
  EXPECT_EQ(bytes.value().sent, 18446744073709551200u);
}

TEST_F(LinkCounters, NameWhatTheyCannotRead) {
  addInterface("r0", "not a number", "1");
  const Result<LinkBytes> bytes = readLinkBytes(root_);
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.status().message().find("rx_bytes"), std::string::npos);
  EXPECT_FALSE(readLinkBytes("/proc/nonexistent").ok());
}

}  // namespace
}  // namespace horing::bench
