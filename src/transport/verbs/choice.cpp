// Chooses devices, ports and addresses: HORING_IB_HCA and HORING_IB_GID_INDEX against the existing ones.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "transport/verbs/device.h"
#include "transport/verbs/device_selection.h"
#include "transport/verbs/subnet.h"

namespace horing::verbs {

namespace {

bool allZero(const ibv_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t byte) { return byte == 0; });
}

// The rank of an address; smaller is better.
int unfitness(const GidEntry& entry) {
  if (entry.kind == GidEntry::Kind::kInfiniband) return 0;
  const int version = entry.kind == GidEntry::Kind::kRoce2 ? 0 : 4;
  return version + (ofIpv4(entry.gid) ? 0 : linkLocal(entry.gid) ? 2 : 1);
}

// Read from a file of the kernel, independent of the library's version. Without the file it is InfiniBand, or an old kernel's v1.
GidEntry::Kind kindOf(const char* device, int port, int index, bool infiniband) {
  if (infiniband) return GidEntry::Kind::kInfiniband;
  const std::string path =
      formatString("/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index);
  char text[32] = "";
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    if (!std::fgets(text, sizeof text, file)) text[0] = '\0';
    std::fclose(file);
  }
  return std::strstr(text, "v2") ? GidEntry::Kind::kRoce2 : GidEntry::Kind::kRoce1;
}

uint32_t speedOf(const ibv_port_attr& facts) {
  const auto lanes = facts.active_width == 1    ? 1u
                     : facts.active_width == 16 ? 2u
                     : facts.active_width == 4  ? 8u
                     : facts.active_width == 8  ? 12u
                                                : 4u;
  const auto mbps_of_lane = facts.active_speed == 1     ? 2500u
                            : facts.active_speed == 2   ? 5000u
                            : facts.active_speed == 16  ? 14000u
                            : facts.active_speed == 32  ? 25000u
                            : facts.active_speed == 64  ? 50000u
                            : facts.active_speed >= 128 ? 100000u
                                                        : 10000u;
  return lanes * mbps_of_lane;
}

// The library does not report a permission error.
Status whyNotOpened(const ibv_device& device, const std::string& name, int error) {
  const std::string file = std::string("/dev/infiniband/") + device.dev_name;
  if (::access(file.c_str(), R_OK | W_OK) != 0) error = errno;
  return systemError(error, "%s cannot be opened, for which this process must read and write %s",
                     name.c_str(), file.c_str());
}

// The error for EFA and iWARP, which have other queue pairs than InfiniBand and RoCE, or connect them differently.
Status whyForeign(const std::string& name) {
  return makeStatus(Code::kSystemError,
                    "%s speaks neither InfiniBand nor RoCE (EFA and iWARP adapters do not serve)",
                    name.c_str());
}

// A port, or the reason why it cannot be used.
Result<Port> inspect(const Library& library, ibv_context* context, int number, int gid_index) {
  Port port{.device = library.deviceName(context->device), .number = number};
  ibv_port_attr facts{};
  const int error = (library.queryPort)(context, static_cast<uint8_t>(number),
                                        reinterpret_cast<_compat_ibv_port_attr*>(&facts));
  if (error != 0) return systemError(error, "query %s", port.label().c_str());
  if (facts.state != IBV_PORT_ACTIVE)
    return makeStatus(Code::kSystemError, "%s is not active", port.label().c_str());
  port.infiniband = facts.link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (!port.infiniband && facts.link_layer != IBV_LINK_LAYER_ETHERNET) return whyForeign(port.label());
  port.needs_grh = (facts.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.mtu = facts.active_mtu;
  port.lid = facts.lid;
  port.mbps = speedOf(facts);
  std::vector<GidEntry> table;
  for (int index = 0; index < facts.gid_tbl_len; ++index) {
    GidEntry entry{.index = index, .gid = {}, .kind = GidEntry::Kind::kInfiniband};
    if (library.queryGid(context, static_cast<uint8_t>(number), index, &entry.gid) != 0 || allZero(entry.gid))
      continue;
    entry.kind = kindOf(port.device.c_str(), number, index, port.infiniband);
    table.push_back(entry);
  }
  // All rows of an InfiniBand port's table are equivalent here.
  HORING_ASSIGN(port.gid, chooseGid(table, port.infiniband ? -1 : gid_index, port.label()));
  if (!port.infiniband) port.subnet = subnetOf(port.gid.gid);
  return port;
}

void note(std::string& notes, const std::string& more) {
  notes += (notes.empty() ? "" : "; ") + more;
}

// Opens the usable ports of one device.
void openPorts(const Library& library, ibv_device* device, const DeviceWish& wish,
               const DeviceSelection& selection, OpenDevices& all) {
  std::string& notes = all.left_out;
  const std::string name = library.deviceName(device);
  if (device->transport_type != IBV_TRANSPORT_IB) return note(notes, whyForeign(name).message());
  int ports = 1;
  for (int number = 1; number <= ports; ++number) {
    ibv_context* const context = library.openDevice(device);
    if (!context) {
      return note(notes, whyNotOpened(*device, name, errno).message());
    }
    ibv_device_attr facts{};
    if (library.queryDevice(context, &facts) == 0) ports = facts.phys_port_cnt;
    auto made = std::make_unique<Device>(library, Port{.device = name, .number = number}, context,
                                         wish.relaxed_ordering);
    if (!selection.chooses(name, number)) {
      note(notes, formatString("%s port %d is not chosen", name.c_str(), number));
      continue;
    }
    Result<Port> port = inspect(library, context, number, wish.gid_index);
    if (port.status().code() == Code::kInvalidArgument && all.wrong_setting.ok())
      all.wrong_setting = port.status();
    Status usable = port.ok() ? Status() : port.status();
    if (usable.ok()) {
      made->describeAs(port.take());
      usable = made->open();
    }
    if (usable.ok())
      all.devices.push_back(std::move(made));
    else
      note(notes, usable.message());
  }
}

}  // namespace

const char* kindName(GidEntry::Kind kind) {
  switch (kind) {
    case GidEntry::Kind::kInfiniband:
      return "InfiniBand";
    case GidEntry::Kind::kRoce1:
      return "RoCE v1";
    case GidEntry::Kind::kRoce2:
      break;
  }
  return "RoCE v2";
}

Result<GidEntry> chooseGid(std::span<const GidEntry> table, int wanted, const std::string& port) {
  if (wanted < 0) {
    const auto best = std::min_element(table.begin(), table.end(), [](const GidEntry& a, const GidEntry& b) {
      return unfitness(a) < unfitness(b);
    });
    if (best != table.end()) return *best;
    return makeStatus(Code::kSystemError, "%s has no address (GID): give its network interface an IP address",
                      port.c_str());
  }
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const GidEntry& e) { return e.index == wanted; });
  if (row != table.end()) return *row;
  std::string there;
  for (const GidEntry& entry : table)
    there += formatString("%s%d (%s)", there.empty() ? "" : ", ", entry.index, kindName(entry.kind));
  return makeStatus(Code::kInvalidArgument, "HORING_IB_GID_INDEX=%d: %s has no such address; it has %s",
                    wanted, port.c_str(), there.empty() ? "none" : there.c_str());
}

Result<OpenDevices> openDevices(const Library& library, const DeviceWish& wish, size_t most) {
  HORING_ASSIGN(const DeviceSelection selection, DeviceSelection::parse(wish.devices));
  int count = 0;
  ibv_device** const list = library.getDeviceList(&count);
  if (!list || count == 0) {
    const int error = list ? ENODEV : errno;
    if (list) library.freeDeviceList(list);
    return systemError(error, "this machine has no RDMA device");
  }
  const auto distance = [&](const std::string& device) {
    const auto known = wish.distance.find(device);
    return known == wish.distance.end() ? INT_MAX : known->second;
  };
  std::stable_sort(list, list + count, [&](ibv_device* a, ibv_device* b) {
    return distance(library.deviceName(a)) < distance(library.deviceName(b));
  });
  OpenDevices all;
  for (int i = 0; i < count && all.devices.size() < most; ++i)
    openPorts(library, list[i], wish, selection, all);
  library.freeDeviceList(list);
  if (all.devices.size() > most) all.devices.resize(most);
  for (const auto& device : all.devices) {
    Port port = device->port();
    port.near = distance(port.device) == distance(all.devices.front()->port().device);
    device->describeAs(std::move(port));
  }
  if (!all.devices.empty()) return all;
  HORING_TRY(all.wrong_setting);
  return makeStatus(Code::kSystemError, "no RDMA device serves (HORING_IB_HCA=%s): %s", wish.devices.c_str(),
                    all.left_out.c_str());
}

}  // namespace horing::verbs
