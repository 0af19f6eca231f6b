#include "transport/socket/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "base/folder_entries.h"

namespace horing::tcp {

namespace {

uint8_t prefixBits(const sockaddr& mask) {
  int bits = 0;
  for (const uint8_t byte : toEndpoint(mask).address.bytes) bits += std::popcount(byte);
  return static_cast<uint8_t>(bits);
}

bool linkLocal(const Address& address) {
  if (address.isV6()) return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
  return address.bytes[0] == 169 && address.bytes[1] == 254;
}

// "lo (127.0.0.1), eth0 (10.0.0.2)"
std::string listText(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& i : interfaces)
    text += (text.empty() ? "" : ", ") + i.name + " (" + i.address.text() + ")";
  return text.empty() ? "none" : text;
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
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !entry->ifa_netmask || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    Interface found{.name = entry->ifa_name, .address = toEndpoint(*entry->ifa_addr).address};
    found.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    sockaddr_storage mask{};
    const size_t bytes = found.address.isV6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&mask, entry->ifa_netmask, bytes);
    mask.ss_family = entry->ifa_addr->sa_family;
    found.prefix_bits = prefixBits(reinterpret_cast<const sockaddr&>(mask));
    if (!linkLocal(found.address)) interfaces.push_back(std::move(found));
  }
  return interfaces;
}

Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all, std::string_view selection,
                                                std::string_view family) {
  HORING_ASSIGN(const InterfaceSelection wanted, InterfaceSelection::parse(selection));
  std::vector<Interface> chosen;
  std::vector<Interface> loopback;
  for (const Interface& candidate : all) {
    if (family != "any" && candidate.address.isV6() != (family == "ipv6")) continue;
    const bool listed = wanted.lists(candidate.name);
    const bool named = listed && !wanted.except;
    const bool by_default =
        wanted.names.empty() ? !candidate.name.starts_with("docker") : wanted.except && !listed;
    if (!named && !by_default) continue;
    std::vector<Interface>& into = candidate.loopback && !named ? loopback : chosen;
    const bool repeated = std::any_of(into.begin(), into.end(), [&](const Interface& other) {
      return other.name == candidate.name && other.address.isV6() == candidate.address.isV6();
    });
    if (!repeated) into.push_back(candidate);
  }
  if (chosen.empty()) chosen = std::move(loopback);
  if (chosen.empty())
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_SOCKET_IFNAME=%.*s and HORING_SOCKET_FAMILY=%.*s choose no interface of this machine; "
        "those that are up: %s",
        static_cast<int>(selection.size()), selection.data(), static_cast<int>(family.size()), family.data(),
        listText(all).c_str());
  std::stable_sort(chosen.begin(), chosen.end(), [](const Interface& a, const Interface& b) {
    return a.address.isV6() < b.address.isV6();
  });
  return chosen;
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
