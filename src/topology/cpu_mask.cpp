#include "topology/cpu_mask.h"

#include <sched.h>
#include <unistd.h>

#include <charconv>

namespace horing {

Result<std::vector<int32_t>> parseCpuMask(std::string_view text) {
  std::vector<int32_t> cpus;
  for (int32_t base = 0; !text.empty(); base += 32) {
    const size_t comma = text.rfind(',');
    std::string_view word = comma == std::string_view::npos ? text : text.substr(comma + 1);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(0, comma);
    if (word.starts_with("0x")) word.remove_prefix(2);
    uint64_t bits = 0;
    if (word.empty()) continue;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    const bool only = base == 0 && text.empty();  // a single word may have 64 bits
    if (error != std::errc() || end != word.data() + word.size() || (!only && bits > UINT32_MAX) ||
        base >= kMaxCpus)
      return makeStatus(
          Code::kInvalidArgument,
          "a set of CPUs is written in words like 0000ffff, with commas between, for CPUs below %d",
          kMaxCpus);
    for (int32_t bit = 0; bit < 64; ++bit)
      if (bits >> bit & 1) cpus.push_back(base + bit);
  }
  return cpus;
}

std::string formatCpuMask(const std::vector<int32_t>& cpus) {
  std::vector<uint32_t> words(cpus.empty() ? 1 : static_cast<size_t>(cpus.back()) / 32 + 1);
  for (const int32_t cpu : cpus) words[static_cast<size_t>(cpu) / 32] |= uint32_t{1} << (cpu % 32);
  std::string text;
  for (size_t word = words.size(); word-- > 0;) text += formatString(word ? "%08x," : "%08x", words[word]);
  return text;
}

std::vector<int32_t> cpusOfThisThread() {
  std::vector<int32_t> cpus;
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(kMaxCpus));
  if (!set) return cpus;
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(kMaxCpus));
  if (sched_getaffinity(0, bytes, set) == 0)
    for (int32_t cpu = 0; cpu < kMaxCpus; ++cpu)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
  CPU_FREE(set);
  return cpus;
}

int32_t onlineCpus() {
  return static_cast<int32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace horing
