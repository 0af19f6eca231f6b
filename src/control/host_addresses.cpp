#include "control/host_addresses.h"

#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "base/fd.h"
#include "base/listener.h"
#include "transport/socket/interfaces.h"

namespace horing {

Result<HostPort> parseHostPort(std::string_view text, const char* source) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    parsed.host = host;
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    if (error != std::errc() || end != port.data() + port.size()) parsed.port = 0;
  }
  if (parsed.host.empty() || parsed.host.size() > 255 || parsed.port == 0)
    return makeStatus(Code::kInvalidArgument,
                      "%s=%.*s: expected host:port, like node-a:4711 or [2001:db8::1]:4711", source,
                      static_cast<int>(text.size()), text.data());
  return parsed;
}

Result<std::vector<Endpoint>> resolveHost(const HostPort& where) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int error = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &list);
  // RFC 6761, 6.3: the name always means the loopback, but a bare container has no /etc/hosts that says so.
  if (error != 0 && where.host == "localhost") error = ::getaddrinfo("127.0.0.1", nullptr, &hints, &list);
  if (error != 0)
    return makeStatus(Code::kSystemError, "cannot resolve the host \"%s\" of the rendezvous: %s",
                      where.host.c_str(), ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<Endpoint> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    Endpoint address = toEndpoint(*entry->ai_addr);
    address.port = where.port;
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
  if (found.empty())
    return makeStatus(Code::kSystemError, "the host \"%s\" has no address", where.host.c_str());
  return found;
}

// The same interfaces as for data connections.
Result<std::vector<Endpoint>> localAddresses(const InterfaceChoice& choice, uint16_t port) {
  HORING_ASSIGN(const std::vector<tcp::Interface> all, tcp::listInterfaces());
  HORING_ASSIGN(const std::vector<tcp::Interface> chosen,
                tcp::chooseInterfaces(all, choice.patterns, choice.family));
  std::vector<Endpoint> addresses;
  for (const tcp::Interface& interface : chosen)
    addresses.push_back({interface.address.withoutScope(), port});
  return addresses;
}

bool loopbackIsDown() {
  const Result<Fd> socket = openSocket(Address::Family::kIpv4);
  ifreq loopback{};
  std::memcpy(loopback.ifr_name, "lo", sizeof "lo");
  return socket.ok() && ::ioctl(socket.value().get(), SIOCGIFFLAGS, &loopback) == 0 &&
         (loopback.ifr_flags & IFF_UP) == 0;
}

bool areAllOfThisMachine(const std::vector<Endpoint>& endpoints) {
  const Result<std::vector<tcp::Interface>> all = tcp::listInterfaces();
  return std::all_of(endpoints.begin(), endpoints.end(), [&all](const Endpoint& each) {
    const auto has_it = [&each](const tcp::Interface& own) {
      return own.address.withoutScope() == each.address.withoutScope();
    };
    return each.address.isLoopback() ||
           (all.ok() && std::any_of(all.value().begin(), all.value().end(), has_it));
  });
}

std::vector<Endpoint> behindEachInterface(const std::vector<Endpoint>& endpoints) {
  const auto open = [](const Endpoint& each) {
    return each.address.isLinkLocal() && each.address.scope == 0;
  };
  if (std::none_of(endpoints.begin(), endpoints.end(), open)) return endpoints;
  std::set<uint32_t> scopes;
  if (const Result<std::vector<tcp::Interface>> all = tcp::listInterfaces(); all.ok())
    for (const tcp::Interface& each : all.value())
      if (!each.on_loopback && each.has_carrier) scopes.insert(::if_nametoindex(each.name.c_str()));
  std::vector<Endpoint> out;
  for (Endpoint each : endpoints) {
    if (!open(each) || scopes.empty()) {
      out.push_back(each);
      continue;
    }
    for (const uint32_t scope : scopes) {
      each.address.scope = scope;
      out.push_back(each);
    }
  }
  return out;
}

}  // namespace horing
