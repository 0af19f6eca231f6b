#include "topology/nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace horing {
namespace {

class Nvml : public testing::Test {
 protected:
  void TearDown() override { unsetenv("FAKE_NVML_FAULT"); }
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

}  // namespace
}  // namespace horing
