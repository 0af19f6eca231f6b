#include "transport/verbs/subnet.h"

#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "base/fd.h"

namespace horing::verbs {

namespace {

constexpr uint8_t kMappedBits = 96;  // before an IPv4 address
constexpr uint8_t kUsualBits = 64;   // of an IPv6 subnet
constexpr uint8_t kUsualBits4 = kMappedBits + 24;

struct Interface {
  unsigned index;
  uint8_t bits;
};

uint8_t ones(const void* mask, size_t bytes) {
  int count = 0;
  for (size_t i = 0; i < bytes; ++i) count += std::popcount(static_cast<const uint8_t*>(mask)[i]);
  return static_cast<uint8_t>(count);
}

// Index 0: none.
Interface interfaceOf(const ibv_gid& gid) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !entry->ifa_netmask) continue;
    if (entry->ifa_addr->sa_family == AF_INET && ofIpv4(gid)) {
      const auto& address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask)->sin_addr;
      if (std::memcmp(&address, gid.raw + 12, sizeof address) == 0)
        return {::if_nametoindex(entry->ifa_name),
                static_cast<uint8_t>(kMappedBits + ones(&mask, sizeof mask))};
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in6*>(entry->ifa_netmask)->sin6_addr;
      if (std::memcmp(&address, gid.raw, sizeof address) == 0)
        return {::if_nametoindex(entry->ifa_name), ones(&mask, sizeof mask)};
    }
  }
  return {};
}

// Whether the route leaves by this interface beyond its subnet: by a gateway, or for a wider range of addresses.
bool leadsAway(const nlmsghdr* message, unsigned interface, int subnet_bits) {
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(message));
  if (route->rtm_type != RTN_UNICAST) return false;
  bool by_interface = false, by_gateway = false;
  int left = static_cast<int>(RTM_PAYLOAD(message));
  for (const rtattr* part = RTM_RTA(route); RTA_OK(part, left); part = RTA_NEXT(part, left)) {
    if (part->rta_type == RTA_GATEWAY || part->rta_type == RTA_VIA) by_gateway = true;
    if (part->rta_type == RTA_OIF) {
      uint32_t index = 0;
      std::memcpy(&index, RTA_DATA(part), sizeof index);
      by_interface = by_interface || index == interface;
    }
    if (part->rta_type != RTA_MULTIPATH) continue;
    int hops_left = static_cast<int>(RTA_PAYLOAD(part));
    for (auto* hop = static_cast<const rtnexthop*>(RTA_DATA(part)); RTNH_OK(hop, hops_left);
         hops_left -= RTNH_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
      if (static_cast<unsigned>(hop->rtnh_ifindex) == interface) by_interface = by_gateway = true;
  }
  return by_interface && (by_gateway || route->rtm_dst_len < subnet_bits);
}

// Checks all tables, since machines with many adapters have one for each. No answer counts as no.
bool hasRouteAway(unsigned interface, uint8_t family, int subnet_bits) {
  const Fd routes(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr head;
    rtmsg route;
  } ask{};
  ask.head = {.nlmsg_len = sizeof ask,
              .nlmsg_type = RTM_GETROUTE,
              .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
              .nlmsg_seq = 1,
              .nlmsg_pid = 0};
  ask.route.rtm_family = family;
  if (!routes.valid() || ::send(routes.get(), &ask, sizeof ask, 0) != static_cast<ssize_t>(sizeof ask))
    return false;
  alignas(nlmsghdr) std::array<char, 32768> answer;
  for (;;) {
    const ssize_t bytes = ::recv(routes.get(), answer.data(), answer.size(), 0);
    if (bytes <= 0) return false;
    auto left = static_cast<unsigned>(bytes);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(answer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) return false;
      if (message->nlmsg_type == RTM_NEWROUTE && leadsAway(message, interface, subnet_bits)) return true;
    }
  }
}

}  // namespace

bool ofIpv4(const ibv_gid& gid) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

bool linkLocal(const ibv_gid& gid) {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

Subnet subnetOf(const ibv_gid& gid) {
  if (linkLocal(gid)) return {.bits = kUsualBits, .routed = false};
  const bool v4 = ofIpv4(gid);
  const Interface interface = interfaceOf(gid);
  if (interface.index == 0) return {.bits = v4 ? kUsualBits4 : kUsualBits, .routed = true};
  const int of_family = v4 ? interface.bits - kMappedBits : interface.bits;
  return {.bits = interface.bits,
          .routed = hasRouteAway(interface.index, v4 ? AF_INET : AF_INET6, of_family)};
}

}  // namespace horing::verbs
