#include "comm/transports.h"

#include <sstream>

#include "transport/loopback/loopback_transport.h"
#include "transport/shm/shm_transport.h"
#include "transport/socket/socket_transport.h"

namespace horing {

namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += formatString("%02x", static_cast<unsigned>(byte));
  return text;
}

Result<std::unique_ptr<Transport>> makeShm(const TransportRequest& request, const UniqueIdParts& parts) {
  ShmOptions options;
  options.directory = request.config.shm_dir;
  options.job = hex(std::span(parts.job).first(8));
  const Key token = Key::derive(std::span(parts.key.bytes), "horing shm names");
  for (size_t i = 0; i < options.token.size(); ++i) options.token[i] = static_cast<uint8_t>(token.bytes[i]);
  options.rank = request.rank;
  options.clock = request.clock;
  options.log = request.log;
  return makeShmTransport(options);
}

Result<std::unique_ptr<Transport>> makeSocket(const TransportRequest& request, const UniqueIdParts& parts) {
  SocketOptions options;
  options.rank = request.rank;
  options.key = Key::derive(std::span(parts.key.bytes), "horing data connections");
  options.interfaces = request.config.socket_ifname;
  options.family = request.config.socket_family;
  options.streams = static_cast<int>(request.config.socket_streams);
  options.congestion = request.config.socket_congestion;
  options.clock = request.clock;
  options.log = request.log;
  return makeSocketTransport(options);
}

}  // namespace

Result<std::vector<std::unique_ptr<Transport>>> makeTransports(const TransportRequest& request) {
  std::vector<std::unique_ptr<Transport>> made;
  if (request.hub) {
    HORING_ASSIGN(auto loopback, makeLoopbackTransport(request.hub, request.rank));
    made.push_back(std::move(loopback));
    return made;
  }
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(request.id));
  std::istringstream names(request.config.transports);
  for (std::string name; std::getline(names, name, ',');) {
    for (const auto& other : made)
      if (name == other->name())
        return makeStatus(Code::kInvalidArgument, "HORING_TRANSPORTS=%s names %s twice",
                          request.config.transports.c_str(), name.c_str());
    if (name == "shm") {
      HORING_ASSIGN(auto shm, makeShm(request, parts));
      made.push_back(std::move(shm));
    } else if (name == "socket") {
      HORING_ASSIGN(auto socket, makeSocket(request, parts));
      made.push_back(std::move(socket));
    } else {
      return makeStatus(Code::kInvalidArgument,
                        "HORING_TRANSPORTS=%s: '%s' is not a transport; there are shm and socket",
                        request.config.transports.c_str(), name.c_str());
    }
  }
  return made;
}

}  // namespace horing
