#include "topology/topology_file.h"

#include <filesystem>

#include "../temporary_folder.h"
#include "graphs.h"
#include "topology/hwloc_graph.h"

namespace horing::test {
namespace {

TEST(TopologyFile, TellsTheFormatsApart) {
  EXPECT_EQ(read("  numa:2 core:2 pu:1\n").ofKind(NodeKind::kNuma).size(), 2u);
  EXPECT_EQ(read("<system version=\"1\"><cpu numaid=\"3\"/></system>").node(1).name, "3");
  EXPECT_EQ(read(fileText(HORING_MACHINES "/nvidia-dgx2.xml")).ofKind(NodeKind::kGpu).size(), 16u);
  EXPECT_NE(refusal("<html/>").find("<topology>"), std::string::npos);
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal("turtles:all the way").find("turtles"), std::string::npos);
}

TEST(TopologyFile, ReadsUnicodeWithItsMark) {
  const std::string text =
      "<system><cpu numaid=\"0\"><nic><net name=\"eth0\" speed=\"1000\"/></nic></cpu></system>";
  const MachineGraph plain = read(text);
  EXPECT_EQ(read("\xef\xbb\xbf" + text), plain);
  std::string little = "\xff\xfe", big = "\xfe\xff";
  for (const char letter : text) {
    little += {letter, '\0'};
    big += {'\0', letter};
  }
  EXPECT_EQ(read(little), plain);
  EXPECT_EQ(read(big), plain);
  EXPECT_NE(refusal("\xff\xfe<system/>").find("XML"), std::string::npos)
      << "the mark does not fit what follows";
}

TEST(TopologyFile, NamesTheFileThatItCannotRead) {
  const Result<MachineGraph> none = graphFromFile("/nowhere/machine.xml");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("/nowhere/machine.xml"), std::string::npos);
  EXPECT_FALSE(graphFromFile("/").ok());
  // Ends, though there is no end.
  EXPECT_NE(graphFromFile("/dev/zero").status().message().find("larger"), std::string::npos);
}

TEST(TopologyFile, SurvivesEveryTruncationAndManyErrors) {
  for (const char* name : {"azure-ndv4", "ibm-power8"}) {
    const std::string whole = fileText(std::string(HORING_MACHINES "/") + name + ".xml");
    for (size_t size = 1; size < whole.size() - 10; size += 97)
      EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
    for (size_t at = 0; at < whole.size(); at += 41) {
      std::string wrong = whole;
      wrong[at] = whole[at] == '9' ? '<' : '9';
      // Some errors leave a description of another machine; none may do harm.
      [[maybe_unused]] const Result<MachineGraph> graph = graphFromText(wrong);
    }
  }
}

TEST(TopologyFile, RefusesHwlocXmlThatCannotBeAndSaysWhere) {
  const auto expect = [](const std::string& inside, const char* said) {
    const std::string error =
        refusal("<topology version=\"2.0\"><object type=\"Machine\">" + inside + "</object></topology>");
    EXPECT_NE(error.find(said), std::string::npos) << inside << ": " << error;
  };
  const std::string gpu =
      "<object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" pci_type=\"0302 [10de:1db8]\"/>";
  expect("\n<object type=\"NUMANode\" os_index=\"-1\" cpuset=\"0x1\"/>",
         "line 2: a NUMA node needs its number");
  expect("<object type=\"PCIDev\" pci_busid=\"$(rm)\"/>", "pci_busid");
  expect("<object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" pci_link_speed=\"-4\"/>", "pci_link_speed");
  expect("<object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" pci_link_speed=\"nan\"/>", "pci_link_speed");
  expect("<object type=\"Package\"><object type=\"Package\"/></object>", "package in a package");
  expect(gpu + gpu, "twice");
  expect(
      "<distances2 name=\"NVLinkBandwidth\"><indexes>1 2</indexes><u64values>1 2 3</u64values></distances2>",
      "make no matrix");
  EXPECT_NE(refusal("<topology><object type=\"Machine\"/></topology>").find("lstopo"), std::string::npos);
  EXPECT_NE(refusal("<topology version=\"9\"/>").find("version '9'"), std::string::npos);
}

TEST(TopologyFile, RefusesSyntheticMachinesThatNobodyCouldBuild) {
  for (const char* text : {"pu:99999", "pack:300 core:300", "core:0", "pack:-1", "pack", "pack:2(memory=9)",
                           "pu:99999999999", "50500pu:4", "4 pu:2", "group:3000 core:1 pu:1"})
    EXPECT_NE(refusal(text), "") << text;
}

// hwloc's own reading of its files, which horing does not trust with damaged ones, is the judge of ours.
TEST(TopologyFile, IsReadAsHwlocReadsIt) {
  for (const char* name : {"nvidia-dgx2", "ibm-power8", "hp-sl390s"}) {
    const std::string path = std::string(HORING_MACHINES "/") + name + ".xml";
    setenv("HWLOC_XMLFILE", path.c_str(), 1);
    const Result<MachineGraph> judge = graphOfThisMachine({"", "/none"});
    unsetenv("HWLOC_XMLFILE");
    ASSERT_TRUE(judge.ok()) << judge.status().toString();
    const MachineGraph graph = read(fileText(path));
    EXPECT_EQ(graph.links().size(), judge.value().links().size()) << name;
    ASSERT_EQ(graph.nodes().size(), judge.value().nodes().size()) << name;
    for (const GraphNode& node : judge.value().nodes()) {
      const auto found = graph.find(node.kind, node.name);
      ASSERT_TRUE(found) << node.name;
      EXPECT_EQ(graph.node(*found).detail, node.detail);
      EXPECT_NEAR(graph.node(*found).gbytes_per_s, node.gbytes_per_s, 1e-5);
      if (node.parent < 0) continue;
      EXPECT_EQ(graph.node(graph.node(*found).parent).name, judge.value().node(node.parent).name);
    }
  }
}

// Facts that the kernel knows and hwloc does not: speeds, and interfaces without a bus.
TEST(TopologyFile, AddsWhatTheKernelKnowsOfNics) {
  const test::TemporaryFolder folder;
  const std::filesystem::path& root = folder.path();
  const auto put = [&](const char* path, const char* text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  };
  put("class/net/tun7/flags", "0x1003");
  put("class/net/tun7/speed", "40000");
  put("class/net/tun8/flags", "0x1002");
  put("class/net/lo/flags", "0x9");
  const Result<MachineGraph> graph = graphOfThisMachine({root.string(), HORING_FAKE_NVML});
  ASSERT_TRUE(graph.ok()) << graph.status().toString();
  const auto tunnel = graph.value().find(NodeKind::kNic, "tun7");
  ASSERT_TRUE(tunnel);
  EXPECT_EQ(graph.value().node(*tunnel).port_gbytes_per_s, 5);
  EXPECT_FALSE(graph.value().find(NodeKind::kNic, "tun8"));
  EXPECT_FALSE(graph.value().find(NodeKind::kNic, "lo"));
}

}  // namespace
}  // namespace horing::test
