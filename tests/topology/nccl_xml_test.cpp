#include "topology/nccl_xml.h"

#include "graphs.h"
#include "topology/rails.h"

namespace horing::test {
namespace {

std::string system(const std::string& inside) {
  return "<system version=\"1\"><cpu numaid=\"0\">" + inside + "</cpu></system>";
}

TEST(NcclXml, TellsDevicesByTheirChildrenOrTheirClass) {
  const MachineGraph graph = read(
      system("<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
             "<pci busid=\"0000:02:00.0\"><gpu dev=\"0\" sm=\"80\"/></pci>"
             "<pci busid=\"0000:03:00.0\" class=\"0x030200\"/>"
             "<pci busid=\"0000:04:00.0\"><nic><net name=\"mlx5_0\" speed=\"200000\"/></nic></pci>"
             "<pci busid=\"0000:05:00.0\" class=\"0x020700\"/></pci><nic><net name=\"eth0\" "
             "speed=\"1000\"/></nic>"));
  EXPECT_EQ(graph.ofKind(NodeKind::kGpu).size(), 2u);
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 3u);
  const GraphNode& nic = graph.node(*graph.find(NodeKind::kNic, "mlx5_0"));
  EXPECT_EQ(nic.port_gbytes_per_s, 25);
  EXPECT_EQ(nic.bus, "0000:04:00.0");
  EXPECT_EQ(graph.node(nic.parent).kind, NodeKind::kBridge);
  EXPECT_NEAR(graph.node(nic.parent).gbytes_per_s, 31.5, 0.1);
  EXPECT_EQ(graph.node(graph.node(*graph.find(NodeKind::kNic, "eth0")).parent).kind, NodeKind::kNuma);
}

TEST(NcclXml, TakesTheNameOfANicForItsDevice) {
  const MachineGraph graph = read(system(
      "<pci busid=\"0000:04:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_1\" speed=\"200000\" port=\"2\"/>"
      "</nic></pci>"));
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 1u);
  EXPECT_TRUE(graph.find(NodeKind::kNic, "mlx5_1"));
}

TEST(NcclXml, AddsUpThePortsOfADevice) {
  const MachineGraph graph = read(system(
      "<pci busid=\"0000:04:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\" speed=\"200000\" port=\"1\"/>"
      "<net name=\"mlx5_0\" speed=\"100000\" port=\"2\"/></nic></pci>"));
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 1u);
  EXPECT_EQ(graph.node(*graph.find(NodeKind::kNic, "mlx5_0")).port_gbytes_per_s, 37.5);
}

TEST(NcclXml, TakesAVirtualNicOnceThoughEveryNumaNodeHasIt) {
  const std::string nic = "<nic><net name=\"tunl0\" speed=\"10000\"/></nic>";
  const MachineGraph graph = read("<system><cpu numaid=\"0\">" + nic + "</cpu><cpu numaid=\"1\">" + nic +
                                  "</cpu><cpu numaid=\"2\">" + nic + "</cpu></system>");
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 1u);
  const GraphNode& virtual_nic = graph.node(graph.ofKind(NodeKind::kNic)[0]);
  EXPECT_EQ(virtual_nic.parent, 0) << "it is near to no NUMA node";
  EXPECT_EQ(virtual_nic.port_gbytes_per_s, 1.25);
}

TEST(NcclXml, TakesWhatNcclDoesNotKnowForUnknown) {
  const MachineGraph graph =
      read(system("<pci busid=\"0000:02:00.0\" link_speed=\"Unknown speed\" link_width=\"\"><gpu/></pci>"
                  "<pci busid=\"0000:03:00.0\" link_speed=\"Unknown\"><nic><net name=\"mlx5_0\" "
                  "speed=\"-1\"/></nic></pci>"));
  EXPECT_EQ(graph.node(*graph.find(NodeKind::kNic, "mlx5_0")).port_gbytes_per_s, 0);
  EXPECT_EQ(graph.node(graph.ofKind(NodeKind::kGpu)[0]).gbytes_per_s, 0);
}

TEST(NcclXml, TakesSwitchesThatShareAnAddress) {
  const auto pair = [](const std::string& bus) {
    return "<pci busid=\"0000:01:00.0\" class=\"0x060400\"><pci busid=\"" + bus +
           ".0\"><gpu/></pci><pci busid=\"" + bus + ".1\"><gpu/></pci></pci>";
  };
  const MachineGraph graph = read(system(pair("0000:02:00") + pair("0000:03:00")));
  ASSERT_EQ(graph.ofKind(NodeKind::kBridge).size(), 2u);
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  EXPECT_EQ(graph.path(gpus[0], gpus[1]).kind, PathKind::kBridge);
  EXPECT_EQ(graph.path(gpus[1], gpus[2]).kind, PathKind::kNuma);
}

TEST(NcclXml, KnowsTheRatesOfGenerations) {
  const auto rateOf = [](const std::string& gpu, const char* link) {
    const MachineGraph graph =
        read(system("<pci busid=\"0000:02:00.0\"><gpu " + gpu + "><" + link +
                    " target=\"0000:03:00.0\" count=\"1\" tclass=\"0x030200\"/></gpu></pci>"
                    "<pci busid=\"0000:03:00.0\"><gpu/></pci>"));
    return graph.links().empty() ? 0 : graph.links()[0].gbytes_per_s;
  };
  EXPECT_EQ(rateOf("sm=\"60\"", "nvlink"), 20);
  EXPECT_EQ(rateOf("sm=\"80\"", "nvlink"), 25);
  EXPECT_EQ(rateOf("sm=\"86\"", "nvlink"), 14.0625);
  EXPECT_EQ(rateOf("sm=\"90\"", "nvlink"), 25);
  EXPECT_EQ(rateOf("sm=\"100\"", "nvlink"), 50);
  EXPECT_EQ(rateOf("gcn=\"906\"", "xgmi"), 46);
  EXPECT_EQ(rateOf("gcn=\"gfx908\"", "xgmi"), 46);
  EXPECT_EQ(rateOf("gcn=\"gfx90a\"", "xgmi"), 50);
  EXPECT_EQ(rateOf("gcn=\"gfx942\"", "xgmi"), 64);
  EXPECT_EQ(rateOf("gcn=\"gfx950\"", "xgmi"), 76.8);
}

TEST(NcclXml, RemarksOnWhatItUnderstandsOtherwise) {
  const MachineGraph graph = read(system(
      "<pci busid=\"0000:02:00.0\"><gpu dev=\"1\" gcn=\"gfx942\"/></pci>\n"
      "<pci busid=\"0000:03:00.0\"><gpu dev=\"0\" gcn=\"gfx942\"/></pci>\n<pci busid=\"0000:04:00.0\"/>"));
  ASSERT_EQ(graph.remarks().size(), 2u);
  EXPECT_NE(graph.remarks()[0].find("line 3: the kind of device 0000:04:00.0 is unknown"), std::string::npos)
      << graph.remarks()[0];
  EXPECT_NE(graph.remarks()[1].find("(dev) of these are 1, 0"), std::string::npos) << graph.remarks()[1];
  EXPECT_TRUE(read(system("<pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci>")).remarks().empty());
}

TEST(NcclXml, AddsUpLinksAndJoinsSwitches) {
  const auto gpu = [](const char* bus, const std::string& links) {
    return std::string("<pci busid=\"") + bus + "\"><gpu sm=\"90\">" + links + "</gpu></pci>";
  };
  const MachineGraph graph =
      read(system(gpu("0000:02:00.0",
                      "<nvlink target=\"0000:0A:00.0\" count=\"2\" tclass=\"0x030200\"/>"
                      "<nvlink target=\"0000:f3:00.0\" count=\"9\" tclass=\"0x068000\"/>"
                      "<nvlink target=\"0000:f4:00.0\" count=\"9\" tclass=\"0x068000\"/>"
                      "<nvlink target=\"0000:02:00.0\" count=\"12\" tclass=\"0x030200\"/>") +
                  gpu("0000:0a:00.0", "<nvlink target=\"0000:f3:00.0\" count=\"4\" tclass=\"0x068000\"/>")));
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  ASSERT_EQ(graph.ofKind(NodeKind::kFabric).size(), 1u);
  ASSERT_EQ(graph.links().size(), 3u);
  EXPECT_EQ(graph.links()[0], (GraphLink{gpus[0], gpus[1], 50}));
  EXPECT_EQ(graph.links()[1].gbytes_per_s, 450);
  EXPECT_EQ(graph.path(gpus[0], gpus[1]).gbytes_per_s, 100);
}

// As NCCL dumps the machines of an NVLink domain.
TEST(NcclXml, TakesTheFirstOfSeveralHosts) {
  const auto host = [](const std::string& hash, const std::string& nic) {
    return "<cpu host_hash=\"" + hash +
           "\" numaid=\"0\"><pci busid=\"0008:01:00.0\"><gpu dev=\"0\" sm=\"100\"><nvlink "
           "target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
           "<pci busid=\"0000:03:00.0\"><nic><net name=\"" +
           nic + "\" speed=\"400000\"/></nic></pci></cpu>";
  };
  const MachineGraph graph = read("<system>" + host("0xa1", "mlx5_0") + host("0xb2", "mlx5_9") + "</system>");
  EXPECT_EQ(graph.ofKind(NodeKind::kGpu).size(), 1u);
  EXPECT_TRUE(graph.find(NodeKind::kNic, "mlx5_0"));
  EXPECT_FALSE(graph.find(NodeKind::kNic, "mlx5_9"));
  ASSERT_EQ(graph.remarks().size(), 1u);
  EXPECT_NE(graph.remarks()[0].find("2 hosts: the machine is the first, with host_hash=\"0xa1\""),
            std::string::npos)
      << graph.remarks()[0];
  EXPECT_NE(refusal("<system>" + host("0xa1", "a") + host("0xa1", "b") + "</system>").find("another GPU"),
            std::string::npos);
}

// A GPU of a Grace machine: one PCIe lane for control, 5 links of 44.7 GB/s to the processor.
TEST(NcclXml, TakesTheLinkToTheProcessor) {
  const MachineGraph graph = read(
      system("<pci busid=\"0008:01:00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"1\"><gpu sm=\"100\">"
             "<c2c bw=\"44712\" count=\"5\"/></gpu></pci>"
             "<pci busid=\"0000:03:00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic>"
             "<net name=\"mlx5_0\" speed=\"400000\"/></nic></pci>"));
  const int32_t gpu = graph.ofKind(NodeKind::kGpu)[0];
  EXPECT_DOUBLE_EQ(graph.node(gpu).host_gbytes_per_s, 223.56);
  EXPECT_TRUE(graph.remarks().empty());
  const Rail rail = assignRails(graph, std::vector{gpu})[0];
  EXPECT_EQ(rail.gbytes_per_s, 50) << "the adapter's line, not the PCIe lane of 4 GB/s";
  EXPECT_EQ(rail.bound, Rail::Bound::kAdapters);
  EXPECT_EQ(read(toNcclXml(graph)), graph);
}

// With an adapter below the same switch, PCIe is the way to it; to another, the processor is.
TEST(NcclXml, GoesByTheSwitchThatAGpuShares) {
  const auto nic = [](const char* bus, const char* name) {
    return std::string("<pci busid=\"") + bus + "\" link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"><nic>" +
           "<net name=\"" + name + "\" speed=\"800000\"/></nic></pci>";
  };
  const MachineGraph graph = read(
      system("<pci busid=\"0009:01:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
             "<pci busid=\"0009:06:00.0\" link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"><gpu sm=\"103\">"
             "<c2c bw=\"44712\" count=\"5\"/></gpu></pci>" +
             nic("0009:03:00.0", "near") + "</pci>" + nic("0000:03:00.0", "far")));
  const int32_t gpu = graph.ofKind(NodeKind::kGpu)[0];
  const GraphPath near = graph.path(gpu, *graph.find(NodeKind::kNic, "near"));
  EXPECT_EQ(near.kind, PathKind::kBridge);
  EXPECT_NEAR(near.gbytes_per_s, 121, 0.1);
  EXPECT_NEAR(graph.path(gpu, *graph.find(NodeKind::kNic, "far")).gbytes_per_s, 121, 0.1);
  EXPECT_DOUBLE_EQ(graph.path(gpu, graph.ofKind(NodeKind::kNuma)[0]).gbytes_per_s, 223.56);
}

TEST(NcclXml, SaysWhichLinkToTheProcessorItLeavesOut) {
  const MachineGraph graph =
      read(system("<pci busid=\"0000:02:00.0\"><gpu dev=\"0\">\n<c2c count=\"4\"/></gpu></pci>"));
  EXPECT_EQ(graph.node(graph.ofKind(NodeKind::kGpu)[0]).host_gbytes_per_s, 0);
  ASSERT_EQ(graph.remarks().size(), 1u);
  EXPECT_NE(graph.remarks()[0].find("line 2: <c2c> of GPU 0000:02:00.0 is left out"), std::string::npos);
}

// Ranks that share a GPU, or its parts: each <gpu> has all links.
TEST(NcclXml, TakesADeviceOnceThoughItsPartsAreListed) {
  const std::string part =
      "\n<gpu dev=\"0\" sm=\"107\"><nvlink target=\"fffffff:ff:ff.0\" count=\"36\" "
      "tclass=\"0x068000\"/></gpu>";
  const MachineGraph graph = read(system("<pci busid=\"0002:81:00.0\">" + part + part + "</pci>"));
  ASSERT_EQ(graph.ofKind(NodeKind::kGpu).size(), 1u);
  ASSERT_EQ(graph.links().size(), 1u);
  EXPECT_EQ(graph.links()[0].gbytes_per_s, 36 * 50);
  ASSERT_EQ(graph.remarks().size(), 1u);
  EXPECT_NE(graph.remarks()[0].find("line 3: <gpu> repeats the one of line 2"), std::string::npos);
}

TEST(NcclXml, SaysWhereItAssumesSixteenLanes) {
  const std::string gpu = "<pci busid=\"0000:02:00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"";
  const std::string none = "\n<pci busid=\"0000:03:00.0\" link_speed=\"32.0 GT/s PCIe\"><gpu/></pci>";
  const MachineGraph graph = read(system("\n" + gpu + "0\"><gpu/></pci>" + none));
  EXPECT_NEAR(graph.node(graph.ofKind(NodeKind::kGpu)[0]).gbytes_per_s, 63, 0.1);
  ASSERT_EQ(graph.remarks().size(), 1u);
  EXPECT_EQ(graph.remarks()[0], "line 2: no link_width, or 0, of 2 PCI devices: 16 lanes are assumed");
  EXPECT_TRUE(read(system(gpu + "8\"><gpu/></pci>")).remarks().empty());
}

TEST(NcclXml, SaysWhereItAssumesTheRateOfLinks) {
  const auto remarksOf = [](const std::string& gpu, const std::string& link) {
    return read(system("\n<pci busid=\"0000:02:00.0\"><gpu " + gpu + ">\n<" + link +
                       " target=\"0000:03:00.0\" count=\"2\"/></gpu></pci>"
                       "<pci busid=\"0000:03:00.0\"><gpu/></pci>"))
        .remarks();
  };
  const std::string unknown =
      "line 3: the generation of the GPU (sm, or gcn) is unknown for 1 <nvlink> or <xgmi>: ";
  EXPECT_EQ(remarksOf("", "nvlink"), std::vector{unknown + "25 GB/s for each link is assumed"});
  EXPECT_EQ(remarksOf("gcn=\"gfx1100\"", "xgmi"), std::vector{unknown + "50 GB/s for each link is assumed"});
  EXPECT_TRUE(remarksOf("sm=\"90\"", "nvlink").empty());
  EXPECT_TRUE(remarksOf("gcn=\"gfx90a\"", "xgmi").empty());
  EXPECT_TRUE(remarksOf("", "nvlink gbytes=\"30\"").empty());
}

TEST(NcclXml, SkipsWhatIsNew) {
  const MachineGraph graph =
      read(system("<future><pci/></future><pci busid=\"0000:02:00.0\"><gpu dev=\"0\"><coming "
                  "count=\"4\"/></gpu></pci><pcilink target=\"x\"/>"));
  EXPECT_EQ(graph.ofKind(NodeKind::kGpu).size(), 1u);
}

TEST(NcclXml, RefusesWhatCannotBeAndSaysWhere) {
  const auto expect = [](const std::string& inside, const char* said) {
    const std::string error = refusal(system(inside));
    EXPECT_NE(error.find(said), std::string::npos) << inside << ": " << error;
  };
  const std::string gpu = "<pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci>";
  expect("\n\n<pci/>", "line 3: <pci> needs a PCI address");
  expect("<pci busid=\"../etc\"/>", "PCI address");
  expect("<pci busid=\"0000:02:00.0\" link_speed=\"-8 GT/s\"/>", "link_speed=\"-8 GT/s\"");
  expect("<pci busid=\"0000:02:00.0\" link_speed=\"nan\"/>", "link_speed");
  expect("<pci busid=\"0000:02:00.0\" link_width=\"1e9\"/>", "link_width");
  expect("<pci busid=\"0000:02:00.0\" gbytes=\"-1\"/>", "gbytes");
  expect("<nic><net name=\"n\" speed=\"-100000\"/></nic>", "speed=\"-100000\"");
  expect("<nic><net speed=\"1\"/></nic>", "needs a name");
  expect("<net name=\"n\"/>", "must stand in <nic>");
  expect("<gpu/>", "must stand in <pci>");
  expect("<cpu numaid=\"1\"/>", "must stand in <system>");
  expect(gpu + gpu, "another GPU");
  expect("<pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/>\n<gpu dev=\"1\"/></pci>",
         "line 2: <gpu> has dev=\"1\": the GPU of this <pci>, line 1, has \"0\"");
  expect("<pci busid=\"0000:02:00.0\"><gpu/><pci busid=\"0000:03:00.0\"/></pci>", "at once");
  expect(
      "<pci busid=\"0000:02:00.0\"><nic><net name=\"n\"/></nic></pci>\n<pci "
      "busid=\"0000:03:00.0\"><nic>\n<net "
      "name=\"n\"/></nic></pci>",
      "line 2: nic 'n' is there twice");
  expect("<pci busid=\"0000:02:00.0\"><gpu><nvlink target=\"0000:03:00.0\" count=\"-2\"/></gpu></pci>",
         "count");
  expect("<pci busid=\"0000:02:00.0\"><gpu>\n<c2c bw=\"-5\" count=\"2\"/></gpu></pci>",
         "line 2: <c2c> has bw");
  expect("<c2c bw=\"5\" count=\"2\"/>", "must stand in <gpu>");
  EXPECT_NE(refusal("<system><cpu/></system>").find("numaid"), std::string::npos);
  EXPECT_NE(refusal("<system><cpu numaid=\"x\"/></system>").find("numaid"), std::string::npos);
  EXPECT_NE(refusal("<system><cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>")
                .find("line 2: numa '0' is there twice"),
            std::string::npos);
}

}  // namespace
}  // namespace horing::test
