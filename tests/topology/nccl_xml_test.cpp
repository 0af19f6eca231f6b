#include "topology/nccl_xml.h"

#include "graphs.h"

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

TEST(NcclXml, KeepsBothPortsOfACard) {
  const MachineGraph graph = read(system(
      "<pci busid=\"0000:04:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\" speed=\"200000\" port=\"1\"/>"
      "<net name=\"mlx5_0\" speed=\"100000\" port=\"2\"/></nic></pci>"));
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 2u);
  EXPECT_EQ(graph.node(*graph.find(NodeKind::kNic, "mlx5_0:2")).port_gbytes_per_s, 12.5);
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

TEST(NcclXml, SkipsWhatIsNew) {
  const MachineGraph graph =
      read(system("<future><pci/></future><pci busid=\"0000:02:00.0\"><gpu dev=\"0\"><c2c "
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
  expect("<pci busid=\"0000:02:00.0\"><gpu/><pci busid=\"0000:03:00.0\"/></pci>", "at once");
  expect("<nic><net name=\"n\"/></nic><nic><net name=\"n\"/></nic>", "twice");
  expect("<pci busid=\"0000:02:00.0\"><gpu><nvlink target=\"0000:03:00.0\" count=\"-2\"/></gpu></pci>",
         "count");
  EXPECT_NE(refusal("<system><cpu/></system>").find("numaid"), std::string::npos);
  EXPECT_NE(refusal("<system><cpu numaid=\"x\"/></system>").find("numaid"), std::string::npos);
  EXPECT_NE(refusal("<system><cpu numaid=\"0\"/><cpu numaid=\"0\"/></system>").find("twice"),
            std::string::npos);
}

}  // namespace
}  // namespace horing::test
