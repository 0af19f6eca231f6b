#pragma once
// The PMI-1 protocol that MPICH's mpiexec (and srun --mpi=pmi2) speaks with each of its processes: lines of text on an inherited
// descriptor. Only the part needed to broadcast one text from rank 0.
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace horing {

// Collective over all ranks of the launch. Returns rank 0's `text` on every rank; at most 1000 characters without blanks. `fd` stays open
// and belongs to the launcher. Once per process: the call ends the protocol.
Result<std::string> broadcastOverPmi1(int fd, int rank, const std::string& text, Deadline deadline);

}  // namespace horing
