#include "horing_run/core_binding.h"

#include <sched.h>

#include <cerrno>
#include <map>

#include "base/first_line.h"
#include "topology/cpu_mask.h"

namespace horing::run {

std::vector<Cpus> byCore(const Cpus& cpus, const std::string& sysfs) {
  std::vector<Cpus> cores;
  std::map<std::string, size_t> core_of_siblings;
  for (const int32_t cpu : cpus) {
    const std::string siblings =
        firstLine(sysfs + "/cpu" + std::to_string(cpu) + "/topology/thread_siblings");
    const size_t next = cores.size();
    const size_t core = siblings.empty() ? next : core_of_siblings.try_emplace(siblings, next).first->second;
    if (core == next) cores.emplace_back();
    cores[core].push_back(cpu);
  }
  return cores;
}

Status bindTo(const Cpus& cpus) {
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(kMaxCpus));
  if (!set) return systemError(ENOMEM, "making a set of CPUs");
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(kMaxCpus));
  CPU_ZERO_S(bytes, set);
  for (const int32_t cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  const int error = ::sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  if (error == 0) return {};
  return systemError(error, "binding to the CPUs %s (--bind-to none does without)",
                     formatCpuMask(cpus).c_str());
}

}  // namespace horing::run
