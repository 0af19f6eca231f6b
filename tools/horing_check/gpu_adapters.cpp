#include "horing_check/gpu_adapters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "horing_check/report.h"
#include "topology/rails.h"

namespace horing::check {

namespace {

// Without rates: the link of a GPU is slower while it is idle.
std::string describeRail(const Rail& rail) {
  const size_t count = rail.nics.size();
  return std::to_string(count) + (count == 1 ? " adapter, " : " adapters, ") + pathKindName(rail.path);
}

}  // namespace

std::string adaptersOfGpus(const MachineGraph& graph) {
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  const std::vector<Rail> rails = assignRails(graph, gpus);
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // and the GPUs of each
  for (size_t gpu = 0; gpu < rails.size(); ++gpu) {
    if (rails[gpu].nics.empty()) continue;
    const std::string kind = describeRail(rails[gpu]);
    auto same = std::ranges::find(kinds, kind, &decltype(kinds)::value_type::first);
    if (same == kinds.end()) same = kinds.insert(same, {kind, {}});
    same->second.push_back("GPU" + std::to_string(gpu));
  }
  std::string text;
  for (const auto& [kind, of_kind] : kinds)
    text += (text.empty() ? "" : "; ") + hostList(of_kind) + ": " + kind;
  return text;
}

}  // namespace horing::check
