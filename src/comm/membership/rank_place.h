#pragma once
// Where in its machine a rank is: what it contributes to the job's map (topology/job_map.h), and how it travels.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "topology/job_map.h"

namespace horing {

inline constexpr size_t kMaxFragmentBytes = 16384;

// Of a rank that computes on the GPU with this PCI address ("0000:3b:00.0"), or, without one or where nobody knows it, of the calling
// thread: in the machine that HORING_TOPO_FILE describes, or in this one. A rank without a GPU that may run on every CPU
// is nowhere in particular, and nothing is looked at then, unless there is a file. Rank 0 writes HORING_TOPO_DUMP, and
// logs what the file says otherwise than horing understands it.
// Fails when the file cannot be read, or the dump not be written.
Result<Fragment> findFragment(const Config& config, int rank, const std::string& gpu_bus = "",
                              const Log& log = Log(LogLevel::kNone));

// As nicDistances() of the fragment's graph (topology/rails.h), which is what transports choose their NICs by. Of a rank that is nowhere in
// particular `sysfs` still says which NICs are slow.
std::map<std::string, int> nicDistances(const Fragment& fragment, const std::string& sysfs = "/sys");

// Decoding takes hostile bytes: what it gives keeps the promises of MachineGraph::make().
std::vector<std::byte> encodeFragment(const Fragment& fragment);
Result<Fragment> decodeFragment(std::span<const std::byte> bytes);

}  // namespace horing
