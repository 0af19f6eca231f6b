#pragma once
// GPUs and NVLink, from NVIDIA's management library. The library is opened when the program runs, if it is there; nothing of it is
// needed to build, and a machine without it has no NVLink as far as horing knows.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// The active links of one GPU to one other device, together.
struct NvLinks {
  std::string gpu;     // PCI address, "0000:3b:00.0"
  std::string target;  // of a GPU; empty: a switch
  double gbytes_per_s = 0;
  bool operator==(const NvLinks&) const = default;
};

// In the order of NVML's devices. A library that cannot be opened, or has no GPU, gives an error that says so; a link
// that does not answer is left out. Opens and closes the library; some milliseconds, more where the driver sleeps.
Result<std::vector<NvLinks>> readNvLinks(const std::string& library = kNvmlLibrary);

// The NVLink domain of the GPU with this PCI address; of all GPUs of the machine where that is empty, which must be in one then. Two GPUs of one
// domain reach each other by NVLink, even in different nodes. Empty: their NVLink ends at the node. An error says what is missing.
Result<std::string> readNvLinkDomain(const std::string& gpu, const std::string& library = kNvmlLibrary);

// GPUs of the machine, whether or not the environment hides some from CUDA. An error says what is missing.
Result<int> countGpus(const std::string& library = kNvmlLibrary);

}  // namespace horing
