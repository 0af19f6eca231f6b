#include "comm/gpu/gpu_sharing.h"

#include <set>
#include <string>

namespace horing {

bool mayShareGpus(std::span<const HostIdentity> ranks, int rank,
                  const std::function<Result<int>()>& count_gpus) {
  const std::string node = ranks[static_cast<size_t>(rank)].nodeLabel();
  std::set<std::string> processes;
  for (const HostIdentity& each : ranks)
    if (each.nodeLabel() == node) processes.insert(each.processLabel());
  if (processes.size() == 1) return false;
  const Result<int> gpus = count_gpus();
  return gpus.ok() && processes.size() > static_cast<size_t>(gpus.value());
}

}  // namespace horing
