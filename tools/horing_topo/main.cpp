// horing-topo: prints and draws a machine, its ring and its rails.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/wrong_usage.h"
#include "common/text_file.h"
#include "plan.h"
#include "topology/hwloc_graph.h"
#include "topology/topology_file.h"

namespace horing::topo {
namespace {

constexpr const char* kFooter = R"help(
Examples
  What horing sees of this machine:
      horing-topo
  The same as a picture:
      horing-topo --svg machine.svg
  A cloud machine, from the file that its vendor provides for NCCL; and one that `lstopo machine.xml` wrote:
      horing-topo ndv4-topo.xml --svg ndv4.svg
      horing-topo machine.xml
  A synthetic machine:
      horing-topo "pack:2 numa:4 core:8 pu:2"
  This machine as a file, to edit by hand and to read again with HORING_TOPO_FILE:
      horing-topo --dump machine.xml

How to read it: GB/s (1e9 bytes) are one way. A device's figure is that of its uplink, `line` that of a NIC's cable. The
ring joins the GPUs (without GPUs, the NUMA nodes) of one machine, and a rail is the NICs that a rank there sends to other
machines through: the nearest ones, without those less than half as fast as the fastest; HORING_IB_HCA and
HORING_SOCKET_IFNAME narrow it down. Its figure is what is left for it while all others send as well. The hardware does not
report bandwidth between NUMA nodes or packages; 32 and 16 GB/s are assumed.

Exit code: 0; 1 if the machine cannot be read or the picture cannot be written; 2 for a wrong command line.
)help";

// If it is not a file, it may be a synthetic description.
Result<MachineGraph> readGraph(const std::string& what) {
  if (what.empty()) return graphOfThisMachine();
  const bool synthetic = what.find(':') != std::string::npos && !std::filesystem::exists(what);
  return synthetic ? graphFromText(what) : graphFromFile(what);
}

struct Options {
  std::string what;
  std::string svg;
  std::string dump;
  bool json = false;
};

Status run(const Options& options) {
  HORING_ASSIGN(MachineGraph graph, readGraph(options.what));
  for (const std::string& remark : graph.remarks()) std::fprintf(stderr, "horing-topo: %s\n", remark.c_str());
  if (!options.dump.empty()) HORING_TRY(writeTopologyFile(graph, options.dump));
  const std::string name =
      options.what.empty() ? graph.node(0).detail : std::filesystem::path(options.what).stem().string();
  const MachinePlan plan = planMachine(std::move(graph));
  std::fputs((options.json ? planAsJson(plan) : planAsText(plan)).c_str(), stdout);
  return options.svg.empty() ? Status() : writeFile(options.svg, planAsSvg(plan, name));
}

int topoMain(int argc, char** argv) {
  Options options;
  CLI::App app("Prints and draws a machine, the ring through it, and its rails.", "horing-topo");
  app.footer(kFooter);
  app.add_option("FILE", options.what,
                 "hwloc's XML, NCCL's topology XML, or a synthetic description; default: this machine");
  app.add_option("--svg", options.svg, "Also draw it to this file");
  app.add_option("--dump", options.dump, "Also write it to this file, in NCCL's format");
  app.add_flag("--json", options.json, "Print JSON");
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status status = run(options);
  if (!status.ok()) std::fprintf(stderr, "horing-topo: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace horing::topo

int main(int argc, char** argv) {
  return horing::topo::topoMain(argc, argv);
}
