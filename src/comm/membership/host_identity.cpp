#include "comm/membership/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/fields.h"
#include "base/first_line.h"
#include "topology/cpu_mask.h"
#include "topology/group_rule.h"

namespace horing {

namespace {

constexpr size_t kMaxText = 200;
constexpr size_t kMaxMaskText = kMaxCpus / 32 * 9;

// The inode that /proc shows identifies a namespace; 0 if /proc is hidden.
uint64_t namespaceInode(const char* kind) {
  struct stat info {};
  return ::stat((std::string("/proc/self/ns/") + kind).c_str(), &info) == 0
             ? static_cast<uint64_t>(info.st_ino)
             : 0;
}

std::string bootId() {
  return firstLine("/proc/sys/kernel/random/boot_id").substr(0, kMaxText);
}

Status checkLabel(const char* variable, const std::string& value) {
  if (value.size() > kMaxText)
    return makeStatus(Code::kInvalidArgument,
                      "environment variable %s has %zu characters: at most %zu are allowed", variable,
                      value.size(), kMaxText);
  for (const char letter : value) {
    if (letter < 0x20 || letter > 0x7e)
      return makeStatus(Code::kInvalidArgument, "environment variable %s must be printable ASCII", variable);
  }
  return {};
}

using KernelRanks = std::vector<const HostIdentity*>;

int32_t countCpus(const KernelRanks& ranks) {
  std::set<int32_t> cpus;
  for (const HostIdentity* rank : ranks) cpus.insert(rank->cpus.begin(), rank->cpus.end());
  return static_cast<int32_t>(cpus.size());
}

// The cores that a control group leaves to the ranks in it. Half a core counts as one.
int32_t coresLeftTo(const KernelRanks& ranks) {
  int32_t cores = countCpus(ranks);
  for (const HostIdentity* rank : ranks)
    if (rank->quota.millicpus > 0) cores = std::min(cores, std::max(rank->quota.millicpus / 1000, 1));
  return cores;
}

// Whether more ranks are bound to some set of cores than it has cores.
bool areBoundTogether(const KernelRanks& ranks) {
  std::map<std::vector<int32_t>, size_t> bound;
  for (const HostIdentity* rank : ranks) ++bound[rank->cpus];
  for (const auto& [cpus, count] : bound) {
    size_t here = 0;
    for (const auto& [others, more] : bound)
      if (std::includes(cpus.begin(), cpus.end(), others.begin(), others.end())) here += more;
    if (here > cpus.size()) return true;
  }
  return false;
}

KernelLoad loadOf(const KernelRanks& ranks) {
  KernelLoad load{static_cast<int32_t>(ranks.size()), 0, areBoundTogether(ranks)};
  std::map<uint64_t, KernelRanks> groups;
  for (const HostIdentity* rank : ranks) groups[rank->quota.group].push_back(rank);
  for (const auto& [group, members] : groups) {
    const int32_t cores = coresLeftTo(members);
    load.cores += cores;
    load.shares_cores = load.shares_cores || static_cast<int32_t>(members.size()) > cores;
  }
  load.cores = std::min(load.cores, countCpus(ranks));
  load.shares_cores = load.shares_cores || load.ranks > load.cores;
  return load;
}

// As a mask, which is short for many CPUs.
void describeCpus(auto& wire, auto& cpus) {
  std::string mask;
  if constexpr (!kReads<decltype(cpus)>) mask = formatCpuMask(cpus);
  wire.text(mask, kMaxMaskText);
  if constexpr (kReads<decltype(cpus)>) {
    Result<std::vector<int32_t>> read = parseCpuMask(mask);
    wire.require(read.ok());
    if (read.ok()) cpus = read.take();
  }
}

}  // namespace

std::string HostIdentity::nodeLabel() const {
  if (!host_override.empty()) return "name:" + host_override;
  return formatString(
      "found:%s/%s/ipc%llu/net%llu/shm%llu:%llu", boot_id.c_str(), host_name.c_str(),
      static_cast<unsigned long long>(ipc_namespace), static_cast<unsigned long long>(network_namespace),
      static_cast<unsigned long long>(shm_device), static_cast<unsigned long long>(shm_inode));
}

std::string HostIdentity::groupLabel() const {
  return group_override.empty() ? "node:" + nodeLabel() : "group:" + group_override;
}

std::string HostIdentity::processLabel() const {
  return formatString("%s pid %llu/%lld", nodeLabel().c_str(), static_cast<unsigned long long>(pid_namespace),
                      static_cast<long long>(pid));
}

std::string HostIdentity::describe() const {
  const std::string limit =
      quota.millicpus == 0 ? ""
                           : formatString(" limited to %.3g", static_cast<double>(quota.millicpus) / 1000);
  return formatString("%s%s%s (pid %lld, %zu usable core%s%s)", host_name.c_str(),
                      host_override.empty() ? "" : " as ", host_override.c_str(), static_cast<long long>(pid),
                      cpus.size(), cpus.size() == 1 ? "" : "s", limit.c_str());
}

std::map<std::string, KernelLoad> kernelLoads(std::span<const HostIdentity> identities) {
  std::map<std::string, KernelRanks> kernels;
  for (const HostIdentity& identity : identities) kernels[identity.boot_id].push_back(&identity);
  std::map<std::string, KernelLoad> loads;
  for (const auto& [boot_id, ranks] : kernels) loads[boot_id] = loadOf(ranks);
  return loads;
}

Result<HostIdentity> findHostIdentity(const Config& config, const std::string& gpu_bus) {
  HORING_TRY(checkLabel("HORING_HOSTID", config.host_id));
  HORING_TRY(checkLabel("HORING_GROUP", config.group));
  HostIdentity identity;
  char host[kMaxText + 1] = "";
  if (::gethostname(host, sizeof host - 1) != 0)
    return systemError(errno, "the host's name could not be read");
  identity.host_name = host;
  identity.boot_id = bootId();
  identity.host_override = config.host_id;
  identity.group_override = config.group;
  if (config.group.empty()) {
    HORING_ASSIGN(GroupPlace place, groupByRule(config.group_by, identity.host_name, gpu_bus));
    identity.group_override = std::move(place.label);
    identity.switches = std::move(place.switches);
    HORING_TRY(checkLabel("HORING_GROUP_BY", identity.group_override));
    HORING_TRY(checkLabel("HORING_GROUP_BY", identity.switches));
  }
  identity.ipc_namespace = namespaceInode("ipc");
  identity.network_namespace = namespaceInode("net");
  struct stat shm {};
  // A missing directory leaves 0: such a rank simply cannot share memory, which its transport says with more
  // detail.
  if (::stat(config.shm_dir.c_str(), &shm) == 0) {
    identity.shm_device = static_cast<uint64_t>(shm.st_dev);
    identity.shm_inode = static_cast<uint64_t>(shm.st_ino);
  }
  identity.pid_namespace = namespaceInode("pid");
  identity.pid = ::getpid();
  identity.cpus = cpusOfThisThread();
  identity.quota = findCpuQuota();
  return identity;
}

void fields(auto& wire, Is<HostIdentity> auto& identity) {
  auto& [host_name, boot_id, host_override, group_override, switches, ipc_namespace, network_namespace,
         shm_device, shm_inode, pid_namespace, pid, cpus, quota, gpu] = identity;
  for (auto* const text : {&host_name, &boot_id, &host_override, &group_override, &switches})
    wire.text(*text, kMaxText);
  wire.numbers(ipc_namespace, network_namespace, shm_device, shm_inode, pid_namespace, pid);
  wire.require(pid >= 0);
  describeCpus(wire, cpus);
  auto& [millicpus, cgroup] = quota;
  wire.numbers(millicpus, cgroup);
  wire.require(millicpus >= 0);
  wire.optional(gpu, [&](auto& its_gpu) {
    auto& [uuid, has_mps] = its_gpu;
    wire.raw(uuid);
    wire.numbers(has_mps);
  });
}
template void fields(FieldWriter&, const HostIdentity&);
template void fields(FieldReader&, HostIdentity&);

}  // namespace horing
