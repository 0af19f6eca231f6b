#pragma once
// The rank, the number of ranks and the rendezvous address, from the launcher's environment.
//
//   horing-run          RANK, WORLD_SIZE, LOCAL_RANK; HORING_ROOT; the secret in HORING_RUN_SECRET
//   Open MPI's mpirun   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK; the unique ID goes through PMIx
//   MPICH's mpiexec     PMI_RANK, PMI_SIZE; the unique ID goes through PMI-1 (PMI_FD); srun --mpi=pmi2 speaks it as well
//   torchrun            RANK, WORLD_SIZE, LOCAL_RANK; HORING_ROOT or MASTER_ADDR and the port after MASTER_PORT; HORING_KEY_FILE
//   srun                SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; HORING_ROOT or the first node; HORING_KEY_FILE
//
// A launcher without a private channel cannot distribute a secret; then the secret comes from HORING_KEY_FILE, or with HORING_INSECURE=1
// there is none.
#include <functional>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "control/root_service.h"
#include "control/unique_id.h"

namespace horing {

struct Launched {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  UniqueId id;  // the key and job are the same on every rank; the addresses may differ
  // Set on the rank that hosts the rendezvous; keep it as long as the communicator.
  std::unique_ptr<RootService> root;
  std::string launcher;  // "horing-run", "torchrun", ...: for messages
};

using EnvironmentLookup = std::function<const char*(const char* name)>;

// Collective over the ranks that were launched together. kInvalidUsage if no launcher is recognised or there is no secret, with what to do;
// kInvalidArgument names a variable with a bad value. Waits at most HORING_INIT_TIMEOUT_MS. May be called again: the ranks' first calls
// make one communicator, their second calls the next.
Result<Launched> launchedRank(const Config& config, const Log& log);
// The same with a given environment and call number, for tests.
Result<Launched> launchedRank(const Config& config, const Log& log, const EnvironmentLookup& environment,
                              uint64_t call = 0);

}  // namespace horing
