#include "comm/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "control/wire.h"
#include "topology/cpu_mask.h"
#include "topology/group_rule.h"

namespace horing {

namespace {

constexpr uint32_t kVersion = 4;
constexpr size_t kMaxText = 200;
constexpr size_t kMaxMaskText = kMaxCpus / 32 * 9;

// Namespaces are told apart by the inode that /proc shows for them; 0 where /proc is hidden.
uint64_t namespaceInode(const char* kind) {
  struct stat info {};
  return ::stat((std::string("/proc/self/ns/") + kind).c_str(), &info) == 0
             ? static_cast<uint64_t>(info.st_ino)
             : 0;
}

std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(file, line);
  return line.substr(0, kMaxText);
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

std::string HostIdentity::describe() const {
  return formatString("%s%s%s (pid %lld, %zu usable core%s)", host_name.c_str(),
                      host_override.empty() ? "" : " as ", host_override.c_str(), static_cast<long long>(pid),
                      cpus.size(), cpus.size() == 1 ? "" : "s");
}

std::map<std::string, KernelLoad> kernelLoads(std::span<const HostIdentity> identities) {
  std::map<std::string, KernelLoad> loads;
  std::map<std::string, std::vector<bool>> used;
  for (const HostIdentity& identity : identities) {
    KernelLoad& load = loads[identity.boot_id];
    std::vector<bool>& cpus = used[identity.boot_id];
    ++load.ranks;
    for (const int32_t cpu : identity.cpus) {
      const auto index = static_cast<size_t>(cpu);
      if (index >= cpus.size()) cpus.resize(index + 1);
      if (!cpus[index]) ++load.cores;
      cpus[index] = true;
    }
  }
  return loads;
}

Result<HostIdentity> findHostIdentity(const Config& config) {
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
    HORING_ASSIGN(GroupPlace place, groupByRule(config.group_by, identity.host_name));
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
  identity.pid = ::getpid();
  identity.cpus = cpusOfThisThread();
  return identity;
}

std::vector<std::byte> encodeHostIdentity(const HostIdentity& identity) {
  WireWriter out;
  out.number(kVersion);
  for (const std::string* text : {&identity.host_name, &identity.boot_id, &identity.host_override,
                                  &identity.group_override, &identity.switches})
    out.text(*text, kMaxText);
  for (const uint64_t number :
       {identity.ipc_namespace, identity.network_namespace, identity.shm_device, identity.shm_inode})
    out.number(number);
  out.number(identity.pid);
  out.text(formatCpuMask(identity.cpus), kMaxMaskText);
  return out.take();
}

Result<HostIdentity> decodeHostIdentity(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  const uint32_t version = in.number<uint32_t>();
  if (version != kVersion)
    return makeStatus(
        Code::kInvalidUsage,
        "host identity has format %u, this library speaks %u: use one version of horing on all ranks",
        version, kVersion);
  HostIdentity identity;
  for (std::string* text : {&identity.host_name, &identity.boot_id, &identity.host_override,
                            &identity.group_override, &identity.switches})
    *text = in.text(kMaxText);
  for (uint64_t* number :
       {&identity.ipc_namespace, &identity.network_namespace, &identity.shm_device, &identity.shm_inode})
    *number = in.number<uint64_t>();
  identity.pid = in.number<int64_t>();
  Result<std::vector<int32_t>> cpus = parseCpuMask(in.text(kMaxMaskText));
  if (!in.complete() || identity.pid < 0 || !cpus.ok())
    return makeStatus(Code::kInternalError, "host identity of %zu bytes is damaged", bytes.size());
  identity.cpus = cpus.take();
  return identity;
}

}  // namespace horing
