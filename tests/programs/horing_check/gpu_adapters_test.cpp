// By which adapters GPUs send, on machines of the topology's tests.
#include "horing_check/gpu_adapters.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "topology/topology_file.h"

namespace horing::check {
namespace {

std::string machineText(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(std::string(HORING_MACHINES "/") + name).rdbuf();
  return text.str();
}

std::string adaptersIn(const std::string& text) {
  const Result<MachineGraph> graph = graphFromText(text);
  return graph.ok() ? adaptersOfGpus(graph.value()) : graph.status().message();
}

TEST(GpuAdapters, AreTheNearestOfEachGpu) {
  EXPECT_EQ(adaptersIn(machineText("azure-ndv5.xml")), "GPU[0-7]: 1 adapter, one PCIe switch");
  EXPECT_EQ(adaptersIn(machineText("aws-p5.xml")), "GPU[0-7]: 4 adapters, one PCIe switch");
}

// GPU 0's adapter is missing: it sends by those of its NUMA node.
TEST(GpuAdapters, ThatAreFurtherAreNamedWithTheirGpus) {
  std::string machine = machineText("azure-ndv5.xml");
  const std::string adapter =
      R"(<pci busid="0101:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>)";
  ASSERT_NE(machine.find(adapter), std::string::npos);
  machine.erase(machine.find(adapter), adapter.size());
  EXPECT_EQ(adaptersIn(machine), "GPU0: 3 adapters, one NUMA node; GPU[1-7]: 1 adapter, one PCIe switch");
}

TEST(GpuAdapters, OfNoneAreNone) {
  EXPECT_EQ(adaptersIn(machineText("nvidia-dgx2.xml")), "") << "a file without adapters";
  EXPECT_EQ(adaptersIn("pack:2 numa:2 core:2 pu:1"), "");
}

}  // namespace
}  // namespace horing::check
