// NVML of a machine with three GPUs: 0 and 1 joined by two links of 25 GB/s, 0 and 2 to a switch whose address is hidden,
// and a link of GPU 1 that is down. FAKE_NVML_FAULT makes it fail: "init" or "count". FAKE_NVML_FABRIC says to which clique of a cluster
// each GPU belongs, "555"; "." has not joined yet, "-" has no fabric, "0" one that ends at the node.
// GPU 1 is slowed down by heat, GPU 2 has no ECC; FAKE_NVML_LACKS_STATE: the driver tells nothing of that kind.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
struct Pci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
constexpr unsigned kBus[] = {0x3b, 0x5e, 0xd8};
bool fails(const char* where) {
  const char* fault = std::getenv("FAKE_NVML_FAULT");
  return fault && std::strcmp(fault, where) == 0;
}
struct Fabric {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
unsigned indexOf(void* device) {
  return static_cast<unsigned>(reinterpret_cast<size_t>(device)) - 1;
}
void fill(Pci* pci, unsigned index) {
  std::memset(pci, 0, sizeof *pci);
  pci->bus = kBus[index];
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
}
// Writes what the driver tells of a GPU's state, and returns NVML's error.
template <typename Value>
int tell(Value* to, Value value) {
  return *to = value, std::getenv("FAKE_NVML_LACKS_STATE") ? 3 : 0;
}
bool toSwitch(unsigned gpu, unsigned link) {
  return (gpu == 0 && link >= 2 && link < 6) || (gpu == 2 && link < 3);
}
bool toGpu(unsigned gpu, unsigned link) {
  return gpu < 2 && link < 2;
}
}  // namespace

extern "C" {
int nvmlInit_v2() {
  return fails("init") ? 9 : 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  return *count = 3, fails("count") ? 1 : 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  return *device = reinterpret_cast<void*>(size_t{index} + 1), 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  return fill(pci, indexOf(device)), 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  const unsigned gpu = indexOf(device);
  if (gpu == 1 && link == 2) return *active = 0, 0;
  return *active = 1, toGpu(gpu, link) || toSwitch(gpu, link) ? 0 : 2;
}
int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  return *version = 3, 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, Pci* pci) {
  if (!toGpu(indexOf(device), link)) return 3;
  return fill(pci, 1 - indexOf(device)), 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  return *type = toSwitch(indexOf(device), link) ? 2 : 0, 0;
}
int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* mhz) {
  return tell(mhz, type == 1 ? 1980u : 2619u);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* generation) {
  return tell(generation, indexOf(device) == 0 ? 4u : 5u);
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) {
  return tell(milliwatts, 700000u);
}
int nvmlDeviceGetEccMode(void* device, int* now, int* after_reset) {
  return *now = *after_reset = 1, indexOf(device) == 2 ? 3 : tell(now, 1);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
  if (indexOf(device) == 2) return 3;
  return tell(errors, type == 1 && counter == 0 ? 4ull : 99ull);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return tell(reasons, indexOf(device) == 1 ? 0x60ull : 0x1ull);
}
int nvmlDeviceGetGpuFabricInfo(void* device, Fabric* fabric) {
  const char* cliques = std::getenv("FAKE_NVML_FABRIC");
  const char clique = cliques && std::strlen(cliques) == 3 ? cliques[indexOf(device)] : '-';
  if (clique == '-') return 3;
  std::memset(fabric, 0, sizeof *fabric);
  fabric->state = clique == '.' ? 2 : 3;
  fabric->clique = static_cast<unsigned>(clique - '0');
  for (unsigned char& byte : fabric->cluster) byte = clique == '0' ? 0 : 0xab;
  return 0;
}
}
