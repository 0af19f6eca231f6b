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
  EXPECT_EQ(adaptersIn(machineText("azure-ndv5.xml")), "GPU[0-7]: 1 adapter, one PCIe switch, 63.0 GB/s");
  EXPECT_EQ(adaptersIn(machineText("aws-p5.xml")), "GPU[0-7]: 4 adapters, one PCIe switch, 50.0 GB/s");
}

// The link of GPU 0's and GPU 1's first adapter has two lanes of sixteen.
TEST(GpuAdapters, ThatAreSlowerAreNamedWithTheirGpus) {
  std::string machine = machineText("made-16-gpus-16-nics.xml");
  EXPECT_EQ(adaptersIn(machine), "GPU[0-15]: 2 adapters, one PCIe switch, 25.0 GB/s");
  const std::string lanes = R"(link_width="16")";
  const size_t adapter = machine.find(R"(class="0x020700")");
  machine.replace(machine.find(lanes, adapter), lanes.size(), R"(link_width="2")");
  EXPECT_EQ(
      adaptersIn(machine),
      "GPU[0-1]: 2 adapters, one PCIe switch, 14.5 GB/s; GPU[2-15]: 2 adapters, one PCIe switch, 25.0 GB/s");
}

TEST(GpuAdapters, OfNoneAreNone) {
  EXPECT_EQ(adaptersIn(machineText("nvidia-dgx2.xml")), "") << "a file without adapters";
  EXPECT_EQ(adaptersIn("pack:2 numa:2 core:2 pu:1"), "");
}

}  // namespace
}  // namespace horing::check
