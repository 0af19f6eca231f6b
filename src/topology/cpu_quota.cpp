#include "topology/cpu_quota.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/fd.h"
#include "topology/cpu_mask.h"

namespace horing {

namespace {

constexpr size_t kMaxListBytes = 16384, kMaxNumberBytes = 64;
constexpr int kMaxLevels = 64;

// The beginning of a file; empty if it cannot be read, or if reading might block.
std::string contentOf(const std::string& path, size_t most_bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text(most_bytes, '\0');
  const ssize_t got = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// Both are microseconds.
int32_t millicpusOf(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  const double millicpus = static_cast<double>(quota) / static_cast<double>(period) * 1000;
  return static_cast<int32_t>(std::clamp(millicpus, 1.0, double{kMaxCpus} * 1000));
}

// Removes and returns the number at the beginning of the text, and the blank after it. 0: none, or out of range.
long long quotaNumber(std::string_view& text) {
  long long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(std::min(static_cast<size_t>(end - text.data()) + 1, text.size()));
  return number;
}

// "200000 100000"; "max 100000" is no limit.
int32_t limitOfV2(const std::string& directory) {
  const std::string content = contentOf(directory + "/cpu.max", kMaxNumberBytes);
  std::string_view text = content;
  const long long quota = quotaNumber(text);
  return millicpusOf(quota, quotaNumber(text));
}

// -1 is no limit.
int32_t limitOfV1(const std::string& directory) {
  const auto numberIn = [&](const char* file) {
    const std::string content = contentOf(directory + file, kMaxNumberBytes);
    std::string_view text = content;
    return quotaNumber(text);
  };
  return millicpusOf(numberIn("/cpu.cfs_quota_us"), numberIn("/cpu.cfs_period_us"));
}

// Applies the limits from the group at `path` up to the mounted root: in a container, the container's own group, whatever its name outside.
void tighten(CpuQuota& quota, const std::string& mount, std::string path,
             int32_t (*limitOf)(const std::string&)) {
  if (!path.starts_with('/') || path.find("/..") != std::string::npos || path == "/") path.clear();
  for (int level = 0; level < kMaxLevels; ++level) {
    const std::string directory = mount + path;
    const int32_t limit = limitOf(directory);
    struct stat info {};
    const bool counts = limit > 0 && (quota.millicpus == 0 || limit <= quota.millicpus);
    if (counts && ::stat(directory.c_str(), &info) == 0) quota = {limit, static_cast<uint64_t>(info.st_ino)};
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

// Lines are "4:cpu,cpuacct:/path" of v1, and "0::/path" of v2.
CpuQuota findCpuQuota(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  CpuQuota quota;
  std::istringstream groups(contentOf(root + "/proc/self/cgroup", kMaxListBytes));
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (controllers.empty()) tighten(quota, mounts, path, limitOfV2);
    if (!lists(controllers, "cpu")) continue;
    tighten(quota, mounts + "/" + controllers, path, limitOfV1);
    if (controllers != "cpu") tighten(quota, mounts + "/cpu", path, limitOfV1);
  }
  return quota;
}

}  // namespace horing
