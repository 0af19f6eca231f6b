#include "base/check.h"
#include "comm/membership/rank_place.h"
#include "targets.h"
#include "topology/group_rule.h"
#include "topology/nccl_xml.h"
#include "topology/rails.h"
#include "topology/ring_search.h"
#include "topology/topology_file.h"

namespace horing::fuzz {

// A file of any format. An accepted graph can be laid out, written and read again.
void topologyText(Bytes bytes) {
  const Result<MachineGraph> graph = graphFromText(std::string(textOf(bytes)));
  if (!graph.ok()) return;
  const std::vector<int32_t> gpus = graph.value().ofKind(NodeKind::kGpu);
  HORING_CHECK_EQ(searchRing(graph.value(), gpus).order.size(), gpus.size());
  HORING_CHECK_EQ(assignRails(graph.value(), gpus).size(), gpus.size());
  [[maybe_unused]] const Result<MachineGraph> again = graphFromText(toNcclXml(graph.value()));
}

// A rank's place from the input, next to an empty one.
void rankPlace(Bytes bytes) {
  Fragment fragment, again;
  if (!decodeFields(bytes, fragment)) return;
  const std::vector<Fragment> fragments = {fragment, Fragment(), fragment};
  const std::vector<std::string> nodes(fragments.size(), "node");
  HORING_CHECK_EQ(layJob(nodes, fragments).precedence.size(), fragments.size());
  HORING_CHECK(decodeFields(encodeFields(fragment), again));
  HORING_CHECK(encodeFields(again) == encodeFields(fragment));
}

// A host, to the end of the line, and then a topology.conf.
void slurmTopology(Bytes bytes) {
  Input in(bytes);
  const std::string host = in.line();
  [[maybe_unused]] const Result<std::string> switches = switchesAbove(textOf(in.all()), host);
  [[maybe_unused]] const Result<GroupPlace> place = groupByRule("host:" + host, host);
}

}  // namespace horing::fuzz
