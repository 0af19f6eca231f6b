#pragma once
// The place of a rank in its machine, for the job's map (topology/job_map.h), and its wire format.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fields.h"
#include "base/log.h"
#include "base/status.h"
#include "topology/job_map.h"

namespace horing {

// Finds the place of the GPU with this PCI address ("0000:3b:00.0") or, without a known GPU, of the calling thread, in the machine that
// HORING_TOPO_FILE describes, else in this machine. A rank without a GPU that may run on every CPU has no place; then, unless there is a
// file, nothing is detected. Rank 0 writes HORING_TOPO_DUMP, and logs the parts of the file that horing interprets differently. Errors: the
// file cannot be read, or the dump cannot be written.
Result<Fragment> findFragment(const Config& config, int rank, const std::string& gpu_bus = "",
                              const Log& log = Log(LogLevel::kNone));

// nicDistances() of the fragment's graph (topology/rails.h), by which transports choose NICs. For a rank without a place, `sysfs` still
// tells which NICs are slow.
std::map<std::string, int> nicDistances(const Fragment& fragment, const std::string& sysfs = "/sys");

// For the exchange (base/fields.h). A fragment that was read keeps the invariants of MachineGraph::make().
void fields(auto& wire, Is<Fragment> auto& fragment);

}  // namespace horing
