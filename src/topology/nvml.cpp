#include "topology/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/hex.h"

namespace horing {

namespace {

// The part of NVML's interface that is used; function names end in the version of the struct that they fill in.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr unsigned kMaxDevices = 256;
constexpr unsigned kMaxLinks = 36;  // per GPU; current GPUs have 18
constexpr int kRemoteIsSwitch = 2;

struct NvmlPci {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(NvmlPci) == 68);

// A GPU's state from the fabric manager. A clique is the set of GPUs of the cluster that can communicate.
struct NvmlFabric {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
static_assert(sizeof(NvmlFabric) == 28);
constexpr int kNvmlNotSupported = 3;
constexpr int kClockOfSm = 1, kClockOfMemory = 2;
constexpr int kUncorrected = 1, kSinceLoaded = 0;
constexpr unsigned char kFabricNotSupported = 0;
constexpr unsigned char kFabricCompleted = 3;

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};

struct Nvml {
  std::unique_ptr<void, CloseLibrary> library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*deviceCount)(unsigned*) = nullptr;
  int (*deviceByIndex)(unsigned, NvmlDevice*) = nullptr;
  int (*pciInfo)(NvmlDevice, NvmlPci*) = nullptr;
  int (*linkState)(NvmlDevice, unsigned, int*) = nullptr;
  int (*linkVersion)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*linkRemote)(NvmlDevice, unsigned, NvmlPci*) = nullptr;
  int (*linkRemoteType)(NvmlDevice, unsigned, int*) = nullptr;  // may be missing: drivers before 460
  int (*fabric)(NvmlDevice, NvmlFabric*) = nullptr;             // may be missing: drivers before 525
  // Any of those below may be missing.
  int (*most_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*most_pcie_generation)(NvmlDevice, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*ecc_mode)(NvmlDevice, int*, int*) = nullptr;
  int (*ecc_errors_of)(NvmlDevice, int, int, unsigned long long*) = nullptr;
  int (*slowed_by)(NvmlDevice, unsigned long long*) = nullptr;
};

template <typename Function>
bool bind(const Nvml& nvml, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(nvml.library.get(), name));
  return function != nullptr;
}

Result<Nvml> openNvml(const std::string& path) {
  Nvml nvml;
  nvml.library.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!nvml.library) {
    const char* why = ::dlerror();
    return makeStatus(Code::kSystemError, "NVML cannot be opened: %s", why ? why : path.c_str());
  }
  const bool complete = bind(nvml, "nvmlInit_v2", nvml.init) && bind(nvml, "nvmlShutdown", nvml.shutdown) &&
                        bind(nvml, "nvmlDeviceGetCount_v2", nvml.deviceCount) &&
                        bind(nvml, "nvmlDeviceGetHandleByIndex_v2", nvml.deviceByIndex) &&
                        bind(nvml, "nvmlDeviceGetPciInfo_v3", nvml.pciInfo) &&
                        bind(nvml, "nvmlDeviceGetNvLinkState", nvml.linkState) &&
                        bind(nvml, "nvmlDeviceGetNvLinkVersion", nvml.linkVersion) &&
                        bind(nvml, "nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.linkRemote);
  if (!complete) return makeStatus(Code::kSystemError, "%s lacks functions of NVML", path.c_str());
  bind(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", nvml.linkRemoteType);
  bind(nvml, "nvmlDeviceGetGpuFabricInfo", nvml.fabric);
  bind(nvml, "nvmlDeviceGetMaxClockInfo", nvml.most_clock);
  bind(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", nvml.most_pcie_generation);
  bind(nvml, "nvmlDeviceGetPowerManagementLimit", nvml.power_limit);
  bind(nvml, "nvmlDeviceGetEccMode", nvml.ecc_mode);
  bind(nvml, "nvmlDeviceGetTotalEccErrors", nvml.ecc_errors_of);
  bind(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.slowed_by);
  return nvml;
}

std::string addressOf(const NvmlPci& pci) {
  return formatString("%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
}

// The bandwidth of one link, one way. `version`: NVML's index of versions 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 (nvmlNvlinkVersion_t);
// Blackwell's 5.0 has twice the rate of 2.0 to 4.0.
double gbytesOfVersion(unsigned version) {
  constexpr unsigned kVersion1 = 1, kVersion5 = 7;
  return version <= kVersion1 ? 20 : version < kVersion5 ? 25 : 50;
}

// Adds the links of one GPU, with all links to one target merged.
void addLinksOf(const Nvml& nvml, NvmlDevice device, std::vector<NvLinks>& links) {
  NvmlPci own{};
  if (nvml.pciInfo(device, &own) != kNvmlSuccess) return;
  const size_t first = links.size();
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int active = 0;
    unsigned version = 0;
    int type = 0;
    NvmlPci remote{};
    if (nvml.linkState(device, link, &active) != kNvmlSuccess || active == 0) continue;
    if (nvml.linkVersion(device, link, &version) != kNvmlSuccess) continue;
    const bool typed = nvml.linkRemoteType && nvml.linkRemoteType(device, link, &type) == kNvmlSuccess;
    const bool to_switch = typed && type == kRemoteIsSwitch;
    // A virtual machine may hide the switches: then the type is known but not the address.
    if (!to_switch && nvml.linkRemote(device, link, &remote) != kNvmlSuccess) continue;
    const std::string target = to_switch ? "" : addressOf(remote);
    const auto known = std::find_if(links.begin() + static_cast<long>(first), links.end(),
                                    [&](const NvLinks& other) { return other.target == target; });
    if (known == links.end())
      links.push_back({addressOf(own), target, gbytesOfVersion(version)});
    else
      known->gbytes_per_s += gbytesOfVersion(version);
  }
}

// Initialises the library and runs `work` on its GPUs.
template <typename Work>
Status onDevices(const std::string& library, const Work& work) {
  HORING_ASSIGN(const Nvml nvml, openNvml(library));
  if (const int error = nvml.init(); error != kNvmlSuccess)
    return makeStatus(Code::kSystemError, "NVML does not start: its error %d", error);
  std::vector<NvmlDevice> devices;
  unsigned count = 0;
  const int counted = nvml.deviceCount(&count);
  for (unsigned index = 0; counted == kNvmlSuccess && index < std::min(count, kMaxDevices); ++index) {
    NvmlDevice device = nullptr;
    if (nvml.deviceByIndex(index, &device) == kNvmlSuccess) devices.push_back(device);
  }
  const Status done = counted == kNvmlSuccess
                          ? work(nvml, devices)
                          : makeStatus(Code::kSystemError, "NVML counts no GPUs: its error %d", counted);
  nvml.shutdown();
  return done;
}

// What a function of the form `function(device, arguments..., &value)` tells, if there is one and it does.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> told(Function* function, NvmlDevice device, Arguments... arguments) {
  Value value{};
  if (!function || function(device, arguments..., &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

std::optional<GpuState> stateOf(const Nvml& nvml, NvmlDevice device) {
  constexpr uint64_t kSlowdowns =
      kSlowedByPowerLimit | kSlowedByHardware | kSlowedByHeat | kSlowedByPowerBrake;
  NvmlPci pci{};
  if (nvml.pciInfo(device, &pci) != kNvmlSuccess) return std::nullopt;
  GpuState state;
  state.gpu = addressOf(pci);
  state.sm_mhz = told<unsigned>(nvml.most_clock, device, kClockOfSm);
  state.memory_mhz = told<unsigned>(nvml.most_clock, device, kClockOfMemory);
  state.pcie_generation = told<unsigned>(nvml.most_pcie_generation, device);
  state.power_limit_mw = told<unsigned>(nvml.power_limit, device);
  int now = 0, after_reset = 0;
  if (nvml.ecc_mode && nvml.ecc_mode(device, &now, &after_reset) == kNvmlSuccess) state.ecc = now != 0;
  state.ecc_errors = told<unsigned long long>(nvml.ecc_errors_of, device, kUncorrected, kSinceLoaded);
  if (const auto reasons = told<unsigned long long>(nvml.slowed_by, device))
    state.slowed_by = *reasons & kSlowdowns;
  return state;
}

// As readNvLinkDomain(), for one GPU.
Result<std::string> domainOf(const Nvml& nvml, NvmlDevice device, const std::string& gpu) {
  NvmlFabric fabric{};
  const int error = nvml.fabric(device, &fabric);
  if (error == kNvmlNotSupported || (error == kNvmlSuccess && fabric.state == kFabricNotSupported))
    return std::string();
  if (error != kNvmlSuccess || fabric.state != kFabricCompleted || fabric.status != kNvmlSuccess)
    return makeStatus(Code::kSystemError,
                      "GPU %s has not joined its NVLink fabric (error %d, state %d, status %d): look at the "
                      "fabric manager",
                      gpu.c_str(), error, fabric.state, fabric.status);
  if (std::all_of(std::begin(fabric.cluster), std::end(fabric.cluster), [](auto byte) { return byte == 0; }))
    return std::string();
  return hexText(std::as_bytes(std::span(fabric.cluster))) + formatString(" clique %u", fabric.clique);
}

}  // namespace

Result<std::vector<NvLinks>> readNvLinks(const std::string& library) {
  std::vector<NvLinks> links;
  HORING_TRY(onDevices(library, [&](const Nvml& nvml, const std::vector<NvmlDevice>& devices) {
    for (const NvmlDevice device : devices) addLinksOf(nvml, device, links);
    return Status();
  }));
  return links;
}

Result<std::string> readNvLinkDomain(const std::string& gpu, const std::string& library) {
  std::optional<std::string> domain;
  HORING_TRY(onDevices(library, [&](const Nvml& nvml, const std::vector<NvmlDevice>& devices) -> Status {
    if (!nvml.fabric)
      return makeStatus(Code::kSystemError, "%s lacks nvmlDeviceGetGpuFabricInfo", library.c_str());
    for (const NvmlDevice device : devices) {
      NvmlPci pci{};
      if (nvml.pciInfo(device, &pci) != kNvmlSuccess || (!gpu.empty() && addressOf(pci) != gpu)) continue;
      HORING_ASSIGN(const std::string found, domainOf(nvml, device, addressOf(pci)));
      if (domain && *domain != found)
        return makeStatus(
            Code::kSystemError,
            "this rank computes on no GPU, and the GPUs of its machine are in several NVLink domains");
      domain = found;
    }
    return {};
  }));
  if (domain) return *domain;
  return makeStatus(Code::kSystemError, gpu.empty() ? "NVML knows no GPU%s" : "NVML does not know GPU %s",
                    gpu.c_str());
}

Result<std::vector<GpuState>> readGpuStates(const std::string& library) {
  std::vector<GpuState> states;
  HORING_TRY(onDevices(library, [&](const Nvml& nvml, const std::vector<NvmlDevice>& devices) {
    for (const NvmlDevice device : devices)
      if (const std::optional<GpuState> state = stateOf(nvml, device)) states.push_back(*state);
    return Status();
  }));
  return states;
}

Result<int> countGpus(const std::string& library) {
  size_t count = 0;
  HORING_TRY(onDevices(library, [&](const Nvml&, const std::vector<NvmlDevice>& devices) {
    count = devices.size();
    return Status();
  }));
  return static_cast<int>(count);
}

}  // namespace horing
