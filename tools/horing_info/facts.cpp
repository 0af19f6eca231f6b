#include "horing_info/facts.h"

#include <cstdlib>

#include "base/config.h"
#include "base/version.h"
#include "comm/gpu/team_memory.h"
#include "horing/horing.h"
#include "selection/selection.h"

namespace horing::info {

std::vector<Variable> readVariables() {
  std::vector<Variable> variables;
  for (const ConfigVariable& known : configVariables()) {
    if (known.for_tests) continue;
    const char* value = std::getenv(known.name);
    const bool is_set = value && *value;
    variables.push_back({known.name, known.kind, known.allowed, known.fallback, known.help,
                         is_set ? value : known.fallback, is_set, known.sharing == Sharing::kShared});
  }
  return variables;
}

Facts gatherFacts(int trial_ranks) {
  Facts facts;
  facts.header_version = HORING_VERSION_CODE;
  (void)horingGetVersion(&facts.library_version);
  facts.protocol_version = kProtocolVersion;
  const Result<Config> config = Config::fromEnvironment();
  facts.configuration = config.ok() ? checkForced(config.value()) : config.status();
  facts.unknown_variables = unknownVariables();
  facts.variables = readVariables();
  Result<Machine> machine = findMachine();
  facts.machine_status = machine.status();
  if (machine.ok()) facts.machine = machine.take();
  facts.rdma_ports = readRdmaPorts("/sys/class/infiniband");
  if (config.ok())
    for (const int ranks : {2, 4, 8, 16}) facts.node_shm.push_back(nodeShmBytes(config.value(), ranks));
  facts.trial_ranks = trial_ranks;
  facts.gpu_bytes_per_rank = TeamMemory::kBytes;
  if (facts.configuration.ok() && trial_ranks > 0) facts.transports = tryTransports(trial_ranks);
  return facts;
}

}  // namespace horing::info
