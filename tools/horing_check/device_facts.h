#pragma once
// What the kernel says of adapters, RDMA devices, GPUs and memory, below /sys (Documentation/ABI in Linux).
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "horing_check/facts.h"
#include "topology/nvml.h"

namespace horing::check {

// Adds facts of these interfaces, of all RDMA devices and GPUs, and of the NUMA nodes. `sys`: where /sys is.
void addDeviceFacts(NodeFacts& facts, const std::vector<std::string>& interfaces,
                    const std::string& sys = "/sys");

// Adds what NVIDIA's driver says of GPUs: highest clocks, PCIe generation, power limit, ECC and its errors, what slows them down. Each is
// one fact of all GPUs, and names those that differ from most: "on, but off on 0000:5e:00.0".
void addGpuStates(NodeFacts& facts, const std::vector<GpuState>& gpus);

// By "rx_crc_errors of eth0": counters of errors of these interfaces and of all RDMA devices, since the driver was loaded.
using ErrorCounters = std::map<std::string, uint64_t>;
ErrorCounters readErrorCounters(const std::vector<std::string>& interfaces, const std::string& sys = "/sys");

// The counters that have grown, and by how much.
ErrorCounters grownSince(const ErrorCounters& before, const ErrorCounters& now);

}  // namespace horing::check
