#include "comm/gpu/gpu_sharing.h"

#include <set>
#include <string>

#include "topology/nvml.h"

namespace horing {

bool mayShareGpus(const Communicator& communicator) {
  const std::string node = communicator.identityOf(communicator.rank()).nodeLabel();
  std::set<std::string> processes;
  for (int rank = 0; rank < communicator.ranks(); ++rank)
    if (communicator.identityOf(rank).nodeLabel() == node)
      processes.insert(communicator.identityOf(rank).processLabel());
  if (processes.size() == 1) return false;
  const Result<int> gpus = countGpus();
  return gpus.ok() && processes.size() > static_cast<size_t>(gpus.value());
}

}  // namespace horing
