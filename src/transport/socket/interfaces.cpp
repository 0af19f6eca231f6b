#include "transport/socket/interfaces.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>

#include "base/fd.h"
#include "base/folder_entries.h"

namespace horing::tcp {

namespace {

uint8_t prefixBits(const sockaddr& mask) {
  int bits = 0;
  for (const uint8_t byte : toEndpoint(mask).address.bytes) bits += std::popcount(byte);
  return static_cast<uint8_t>(bits);
}

// "lo (127.0.0.1), eth0 (fe80::1%eth0, link-local), eth1 (10.0.0.2, no carrier)"
std::string listText(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& i : interfaces)
    text += (text.empty() ? "" : ", ") + i.name + " (" + i.address.text() +
            (i.address.isLinkLocal() ? ", link-local" : "") + (i.has_carrier ? ")" : ", no carrier)");
  return text.empty() ? "none" : text;
}

// Bridges, as virtual machines and containers have them, except one that carries the default route.
std::set<std::string> privateBridges(const ifaddrs* list) {
  std::set<std::string> bridges;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family == AF_PACKET) continue;
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    ifreq request{};
    std::strncpy(request.ifr_name, entry->ifa_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&driver);
    if (::ioctl(socket.get(), SIOCETHTOOL, &request) == 0 && std::string_view(driver.driver) == "bridge")
      bridges.insert(entry->ifa_name);
  }
  if (bridges.empty()) return bridges;
  std::ifstream routes("/proc/self/net/route");
  for (std::string line; std::getline(routes, line);) {
    std::istringstream fields(line);
    std::string interface, destination;
    if (fields >> interface >> destination && destination == "00000000") bridges.erase(interface);
  }
  return bridges;
}

// Rank by likelihood that the address leads somewhere: 1 is best, 3 is worst.
size_t expectation(const Interface& interface) {
  if (interface.loopback || !interface.has_carrier) return 3;
  return interface.on_loopback ? 2 : 1;
}

// Whether the interface of this link-local address has a routable address of such a family.
bool hasBetter(const std::vector<Interface>& all, const Interface& of, std::string_view family) {
  return std::any_of(all.begin(), all.end(), [&](const Interface& other) {
    return other.name == of.name && !other.address.isLinkLocal() &&
           (family == "any" || other.address.isV6() == of.address.isV6());
  });
}

std::vector<Interface> inOrder(const std::vector<Interface>& chosen) {
  using Key = std::tuple<size_t, bool, bool, bool>;
  std::vector<std::pair<Key, Interface>> keyed;
  std::set<std::pair<std::string, bool>> seen;
  for (const Interface& each : chosen) {
    const bool is_v6 = each.address.isV6();
    const bool further = !each.loopback && !seen.insert({each.name, is_v6}).second;
    keyed.push_back({{expectation(each), each.private_bridge, further, is_v6}, each});
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Interface> out;
  for (auto& [key, each] : keyed) out.push_back(std::move(each));
  return out;
}

constexpr int kUnknown = INT_MAX;

int distanceOf(const std::string& interface, const std::map<std::string, int>& distances,
               const std::string& net) {
  if (const auto known = distances.find(interface); known != distances.end()) return known->second;
  for (const auto& device : folderEntries(net + "/" + interface + "/device/infiniband"))
    if (const auto known = distances.find(device.filename().string()); known != distances.end())
      return known->second;
  return kUnknown;
}

}  // namespace

Result<InterfaceSelection> InterfaceSelection::parse(std::string_view text) {
  InterfaceSelection selection;
  std::string_view rest = text;
  if (rest.starts_with('^')) {
    selection.except = true;
    rest.remove_prefix(1);
  }
  if (rest.starts_with('=')) {
    selection.exact = true;
    rest.remove_prefix(1);
  }
  const bool anything = rest.size() < text.size() || !rest.empty();
  while (anything) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name.empty() || name.size() >= IF_NAMESIZE || name.find_first_of("^= \t") != std::string_view::npos)
      return makeStatus(
          Code::kInvalidArgument,
          "HORING_SOCKET_IFNAME=%.*s: expected names of interfaces separated by commas, as in eth,ib "
          "(prefixes), =eth0,eth1 (exactly these) or ^docker (all but these); '%.*s' is none",
          static_cast<int>(text.size()), text.data(), static_cast<int>(name.size()), name.data());
    selection.names.emplace_back(name);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return selection;
}

bool InterfaceSelection::lists(std::string_view interface) const {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return exact ? interface == name : interface.starts_with(name);
  });
}

Result<std::vector<Interface>> listInterfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return systemError(errno, "list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> interfaces;
  const std::set<std::string> bridges = privateBridges(list);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !entry->ifa_netmask || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    Interface found{.name = entry->ifa_name, .address = toEndpoint(*entry->ifa_addr).address};
    if (found.address.isLinkLocal()) found.address.scope = ::if_nametoindex(entry->ifa_name);
    found.loopback = found.address.isLoopback();
    found.on_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    found.has_carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
    found.private_bridge = bridges.contains(found.name);
    sockaddr_storage mask{};
    const size_t bytes = found.address.isV6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&mask, entry->ifa_netmask, bytes);
    mask.ss_family = entry->ifa_addr->sa_family;
    found.prefix_bits = prefixBits(reinterpret_cast<const sockaddr&>(mask));
    interfaces.push_back(std::move(found));
  }
  return interfaces;
}

Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all, std::string_view selection,
                                                std::string_view family) {
  HORING_ASSIGN(const InterfaceSelection wanted, InterfaceSelection::parse(selection));
  // Fallbacks, used only if there is nothing better, one kind after the other.
  std::array<std::vector<Interface>, 4> kinds;
  for (const Interface& candidate : all) {
    if (family != "any" && candidate.address.isV6() != (family == "ipv6")) continue;
    const bool listed = wanted.lists(candidate.name);
    const bool named = listed && !wanted.except;
    const bool by_default =
        wanted.names.empty() ? !candidate.name.starts_with("docker") : wanted.except && !listed;
    if (!named && !by_default) continue;
    if (candidate.address.isLinkLocal() && (!named || hasBetter(all, candidate, family))) continue;
    kinds[named ? 0 : expectation(candidate)].push_back(candidate);
  }
  const auto best = std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) { return !kind.empty(); });
  if (best == kinds.end())
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_SOCKET_IFNAME=%.*s and HORING_SOCKET_FAMILY=%.*s choose no interface of this machine; "
        "interfaces that are up: %s",
        static_cast<int>(selection.size()), selection.data(), static_cast<int>(family.size()), family.data(),
        listText(all).c_str());
  return inOrder(*best);
}

void markNear(std::vector<Interface>& interfaces, const std::map<std::string, int>& distances,
              const std::string& net) {
  if (distances.empty()) return;
  std::vector<int> far;
  for (const Interface& interface : interfaces) far.push_back(distanceOf(interface.name, distances, net));
  const int least = far.empty() ? kUnknown : *std::min_element(far.begin(), far.end());
  for (size_t i = 0; i < far.size(); ++i) interfaces[i].near = far[i] == least || far[i] == kUnknown;
}

}  // namespace horing::tcp
