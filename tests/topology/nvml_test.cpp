#include "topology/nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace horing {
namespace {

class Nvml : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("FAKE_NVML_FAULT");
    unsetenv("FAKE_NVML_FABRIC");
    unsetenv("FAKE_NVML_LACKS_STATE");
  }

  static Result<std::string> domain(const char* fabric, const std::string& gpu = "") {
    setenv("FAKE_NVML_FABRIC", fabric, 1);
    return readNvLinkDomain(gpu, HORING_FAKE_NVML);
  }
};

TEST_F(Nvml, AddsUpTheActiveLinksToEachTarget) {
  const Result<std::vector<NvLinks>> links = readNvLinks(HORING_FAKE_NVML);
  ASSERT_TRUE(links.ok()) << links.status().toString();
  EXPECT_EQ(links.value(), (std::vector<NvLinks>{{"0000:3b:00.0", "0000:5e:00.0", 50},
                                                 {"0000:3b:00.0", "", 100},
                                                 {"0000:5e:00.0", "0000:3b:00.0", 50},
                                                 {"0000:d8:00.0", "", 75}}));
}

TEST_F(Nvml, SaysWhyThereIsNone) {
  EXPECT_NE(readNvLinks("/nowhere/libnvidia-ml.so.1").status().message().find("/nowhere"), std::string::npos);
  EXPECT_NE(readNvLinks("libm.so.6").status().message().find("lacks"), std::string::npos);
  setenv("FAKE_NVML_FAULT", "init", 1);
  EXPECT_NE(readNvLinks(HORING_FAKE_NVML).status().message().find("error 9"), std::string::npos);
  setenv("FAKE_NVML_FAULT", "count", 1);
  EXPECT_FALSE(readNvLinks(HORING_FAKE_NVML).ok());
}

TEST_F(Nvml, NamesTheDomainThatSpansNodes) {
  const std::string cluster = "abababababababababababababababab";
  EXPECT_EQ(domain("577", "0000:3b:00.0").take(), cluster + " clique 5");
  EXPECT_EQ(domain("577", "0000:5e:00.0").take(), cluster + " clique 7");
  EXPECT_EQ(domain("555").take(), cluster + " clique 5");
  EXPECT_EQ(domain("000").take(), "") << "NVLink ends at the node";
  EXPECT_EQ(domain("---", "0000:d8:00.0").take(), "") << "there is no fabric";
}

TEST_F(Nvml, SaysWhyThereIsNoDomain) {
  EXPECT_NE(domain("557").status().message().find("several NVLink domains"), std::string::npos);
  EXPECT_NE(domain("5.5", "0000:5e:00.0").status().message().find("GPU 0000:5e:00.0 has not joined"),
            std::string::npos);
  EXPECT_TRUE(domain("5.5", "0000:3b:00.0").ok()) << "of another GPU";
  EXPECT_NE(domain("555", "0000:01:00.0").status().message().find("0000:01:00.0"), std::string::npos);
  EXPECT_FALSE(readNvLinkDomain("", "/nowhere/libnvidia-ml.so.1").ok());
  setenv("FAKE_NVML_FAULT", "count", 1);
  EXPECT_FALSE(domain("555").ok());
}

TEST_F(Nvml, TellsTheStateOfEachGpu) {
  const Result<std::vector<GpuState>> states = readGpuStates(HORING_FAKE_NVML);
  ASSERT_TRUE(states.ok()) << states.status().toString();
  EXPECT_EQ(states.value(),
            (std::vector<GpuState>{{"0000:3b:00.0", 1980, 2619, 4, 700000, true, 4, 0},
                                   {"0000:5e:00.0", 1980, 2619, 5, 700000, true, 4, kSlowedByHeat},
                                   {"0000:d8:00.0", 1980, 2619, 5, 700000, std::nullopt, std::nullopt, 0}}));
}

TEST_F(Nvml, LeavesOutWhatTheDriverDoesNotTell) {
  setenv("FAKE_NVML_LACKS_STATE", "1", 1);
  const Result<std::vector<GpuState>> states = readGpuStates(HORING_FAKE_NVML);
  ASSERT_TRUE(states.ok()) << states.status().toString();
  ASSERT_EQ(states.value().size(), 3u);
  GpuState nothing_known;
  nothing_known.gpu = "0000:3b:00.0";
  EXPECT_EQ(states.value().front(), nothing_known);
  EXPECT_FALSE(readGpuStates("/nowhere/libnvidia-ml.so.1").ok());
}

TEST_F(Nvml, CountsGpus) {
  EXPECT_EQ(countGpus(HORING_FAKE_NVML).take(), 3);
  EXPECT_FALSE(countGpus("/nowhere/libnvidia-ml.so.1").ok());
}

}  // namespace
}  // namespace horing
