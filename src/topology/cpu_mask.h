#pragma once
// Sets of CPUs as the kernel, NCCL and hwloc write them: 32 bits each in hexadecimal, the highest first, "0000ffff,ffffffff".
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace horing {

inline constexpr int32_t kMaxCpus = 32768;

// Ascending. A word may begin with 0x, and hwloc omits words that are 0. Fails on any other text, and on CPUs from kMaxCpus on.
Result<std::vector<int32_t>> parseCpuMask(std::string_view text);
std::string formatCpuMask(const std::vector<int32_t>& cpus);

// The CPUs that the calling thread may run on.
std::vector<int32_t> cpusOfThisThread();
// The number of online CPUs of the machine.
int32_t onlineCpus();

}  // namespace horing
