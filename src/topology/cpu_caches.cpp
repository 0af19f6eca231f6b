#include "topology/cpu_caches.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/first_line.h"
#include "topology/cpu_mask.h"

namespace horing {

namespace {

constexpr int kMaxCaches = 16;
constexpr uint64_t kMaxCacheKib = uint64_t{64} << 20;

// Parses "32768K"; 0 for any other text.
uint64_t bytesIn(std::string_view size) {
  uint64_t kib = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), kib);
  if (error != std::errc() || kib > kMaxCacheKib || std::string_view(end, size.end()) != "K") return 0;
  return kib * 1024;
}

int32_t cpusIn(const std::string& mask) {
  const Result<std::vector<int32_t>> cpus = parseCpuMask(mask);
  return cpus.ok() ? std::max(static_cast<int32_t>(cpus.value().size()), 1) : 1;
}

}  // namespace

CpuCaches findCpuCaches(int cpu, const std::string& root) {
  CpuCaches caches;
  std::string last_level;
  for (int index = 0; index < kMaxCaches; ++index) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" +
                               std::to_string(index) + "/";
    const std::string level = firstLine(folder + "level");
    if (level.empty()) break;
    const uint64_t bytes = bytesIn(firstLine(folder + "size"));
    if (bytes == 0 || firstLine(folder + "type") == "Instruction") continue;
    if (level == "2") caches.second_level_bytes = bytes;
    if (level < last_level) continue;
    last_level = level;
    caches.last_level_bytes = bytes;
    caches.last_level_cpus = cpusIn(firstLine(folder + "shared_cpu_map"));
  }
  return caches;
}

CpuCaches cachesOfThisThread() {
  return findCpuCaches(std::max(::sched_getcpu(), 0));
}

}  // namespace horing
