#pragma once
// Binds ranks to cores (--bind-to core). The assignment is in topology/core_sharing.h.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::run {

// CPUs (hardware threads), ascending.
using Cpus = std::vector<int32_t>;

// The same CPUs grouped by core, ordered by the first CPU. If `sysfs` does not list the CPUs of a core, each CPU is a core.
std::vector<Cpus> byCore(const Cpus& cpus, const std::string& sysfs = "/sys/devices/system/cpu");

// Binds the calling thread and the threads that it starts.
Status bindTo(const Cpus& cpus);

}  // namespace horing::run
