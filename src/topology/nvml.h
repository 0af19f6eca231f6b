#pragma once
// GPUs and NVLink, from NVIDIA's management library. The library is loaded at run time if present; it is not needed for the build. Without
// it horing assumes that there is no NVLink.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// All active links of one GPU to one other device.
struct NvLinks {
  std::string gpu;     // PCI address, "0000:3b:00.0"
  std::string target;  // of a GPU; empty: a switch
  double gbytes_per_s = 0;
  bool operator==(const NvLinks&) const = default;
};

// In the order of NVML's devices. Errors: the library cannot be opened, or has no GPU. Links without an answer are skipped. Opens and
// closes the library; takes some milliseconds, more if the driver is not active.
Result<std::vector<NvLinks>> readNvLinks(const std::string& library = kNvmlLibrary);

// The NVLink domain of the GPU with this PCI address; if empty, of all GPUs of the machine, which must be in one domain. Two GPUs of one
// domain are connected by NVLink, even in different nodes. Empty: NVLink does not leave the node. An error says what is missing.
Result<std::string> readNvLinkDomain(const std::string& gpu, const std::string& library = kNvmlLibrary);

// The number of GPUs of the machine, including GPUs that the environment hides from CUDA. An error says what is missing.
Result<int> countGpus(const std::string& library = kNvmlLibrary);

// What slows a GPU's clocks down now; bits of nvmlDeviceGetCurrentClocksThrottleReasons. An idle GPU, or chosen clocks, are not among them.
enum GpuSlowdown : uint64_t {
  kSlowedByPowerLimit = 0x04,
  kSlowedByHardware = 0x08,
  kSlowedByHeat = 0x20 | 0x40,  // as the driver sees it, or the hardware
  kSlowedByPowerBrake = 0x80
};

// What does not change with the load, but for `slowed_by`. Missing: the driver or the GPU does not tell.
struct GpuState {
  std::string gpu;                 // PCI address, "0000:3b:00.0"
  std::optional<unsigned> sm_mhz;  // the highest clocks
  std::optional<unsigned> memory_mhz;
  std::optional<unsigned> pcie_generation;  // the highest that the GPU and its slot have in common
  std::optional<unsigned> power_limit_mw;
  std::optional<bool> ecc;
  std::optional<uint64_t> ecc_errors;  // uncorrected ones, since the driver was loaded
  std::optional<uint64_t> slowed_by;   // GpuSlowdown; 0: nothing
  bool operator==(const GpuState&) const = default;
};

// In the order of NVML's devices. Errors and cost as of readNvLinks().
Result<std::vector<GpuState>> readGpuStates(const std::string& library = kNvmlLibrary);

}  // namespace horing
