#pragma once
// Binding ranks to cores (--bind-to core). Who gets which: topology/core_sharing.h.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::run {

// CPUs (hardware threads), ascending.
using Cpus = std::vector<int32_t>;

// The same CPUs, those of one core together, in the order of their first. Where `sysfs` does not say who is on one core, each CPU is
// a core.
std::vector<Cpus> byCore(const Cpus& cpus, const std::string& sysfs = "/sys/devices/system/cpu");

// The calling thread and those it starts.
Status bindTo(const Cpus& cpus);

}  // namespace horing::run
