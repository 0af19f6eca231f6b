#include "comm/links/transports.h"

#include <algorithm>
#include <atomic>
#include <sstream>

#include "base/hex.h"
#include "comm/links/link_shape.h"
#include "transport/loopback/loopback_transport.h"
#include "transport/shm/shm_transport.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace horing {

namespace {

Result<std::unique_ptr<Transport>> makeShm(const TransportRequest& request, const UniqueIdParts& parts) {
  ShmOptions options;
  options.directory = request.config.shm_dir;
  options.job = hexText(std::span(parts.job).first(8));
  options.rank = request.rank;
  options.clock = request.clock;
  options.log = request.log;
  return makeShmTransport(options);
}

Result<std::unique_ptr<Transport>> makeSocket(const TransportRequest& request, const UniqueIdParts& parts,
                                              std::string_view purpose = "horing data connections") {
  SocketOptions options;
  options.rank = request.rank;
  options.key = Key::derive(std::span(parts.key.bytes), std::string(purpose) + request.purpose);
  options.interfaces = request.config.socket_ifname;
  options.family = request.config.socket_family;
  HORING_ASSIGN(options.ports, parsePortRange(request.config.ports));
  options.streams = static_cast<int>(request.config.socket_streams);
  options.distance = request.nic_distance;
  options.clock = request.clock;
  options.deaths_are_told = request.deaths_are_told;
  options.log = request.log;
  return makeSocketTransport(options);
}

Result<std::unique_ptr<Transport>> makeVerbs(const TransportRequest& request, const UniqueIdParts& parts,
                                             WithoutPaths without_paths) {
  const Config& config = request.config;
  const LinkShape shape = linkShapeOf(config, "verbs", 2);
  VerbsOptions options;
  options.rank = request.rank;
  options.devices = config.ib_hca;
  options.gid_index = static_cast<int>(config.ib_gid_index);
  options.timeout = static_cast<int>(config.ib_timeout);
  options.retries = static_cast<int>(config.ib_retries);
  // Less than the timeout of a call, whose error would not name the cause.
  options.outage_ms = std::min(config.ib_outage_ms, operationMs(config.timeout_ms) / 2);
  options.traffic_class = static_cast<int>(config.ib_tc);
  options.service_level = static_cast<int>(config.ib_sl);
  options.pkey_index = static_cast<int>(config.ib_pkey_index);
  options.relaxed_ordering = config.ib_relaxed_ordering;
  options.queue_pairs = static_cast<int>(config.ib_qps_per_connection);
  options.distance = request.nic_distance;
  options.locked_bytes = size_t{2} * static_cast<size_t>(shape.channels) * shape.slots * shape.slot_bytes;
  options.without_paths = without_paths;
  options.region_bytes = static_cast<size_t>(config.ib_registered_mb) << 20;
  options.library = request.verbs;
  options.clock = request.clock;
  options.log = request.log;
  HORING_ASSIGN(auto words, makeSocket(request, parts, "horing words beside RDMA"));
  return makeVerbsTransport(options, std::move(words));
}

// A placeholder for a transport that this rank does not have, so that indices are the same on all ranks. Reaches no peer.
class AbsentTransport final : public Transport {
 public:
  explicit AbsentTransport(const char* name) : name_(name) {}
  const char* name() const override { return name_; }
  std::vector<std::byte> address() const override { return {}; }
  bool canReach(std::span<const std::byte>) const override { return false; }
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int peer, std::span<const std::byte>, const LinkShape&, int) override {
    return makeStatus(Code::kInvalidUsage, "there is no %s here to reach rank %d", name_, peer);
  }
  Status progress() override { return {}; }
  void beginWait() override {}
  int waitFd() const override { return -1; }
  void endWait() override {}
  uint64_t memoryBytes() const override { return sizeof *this; }
  RegionAccess* regions() override { return nullptr; }

 private:
  const char* name_;
};

// If the transport is unavailable, sockets replace it if they come later in the list; otherwise that is an error. An invalid setting is
// always an error.
Result<std::unique_ptr<Transport>> orSockets(Result<std::unique_ptr<Transport>> made, const char* name,
                                             bool has_sockets, const Log& log, LogLevel level) {
  if (made.ok() || made.status().code() == Code::kInvalidArgument) return made;
  const char* const why = made.status().message().c_str();
  if (!has_sockets)
    return makeStatus(made.status().code(),
                      "%s; with socket behind %s in HORING_TRANSPORTS, sockets serve instead", why, name);
  if (level == LogLevel::kWarn) {
    log.warn(name, "%s; sockets serve instead", why);
  } else {
    log.info(name, "%s; sockets serve instead", why);
  }
  return std::unique_ptr<Transport>(std::make_unique<AbsentTransport>(name));
}

// A process makes transports for each of its communicators; the state of the directory need be logged only once.
LogLevel onceInAProcess() {
  static std::atomic<bool> told{false};
  return told.exchange(true) ? LogLevel::kInfo : LogLevel::kWarn;
}

Result<std::unique_ptr<Transport>> makeShmOrNot(const TransportRequest& request, const UniqueIdParts& parts,
                                                bool has_sockets) {
  Result<std::unique_ptr<Transport>> shm = makeShm(request, parts);
  const bool falls_back = !shm.ok() && has_sockets;
  return orSockets(std::move(shm), "shm", has_sockets, request.log,
                   falls_back ? onceInAProcess() : LogLevel::kInfo);
}

Result<std::unique_ptr<Transport>> makeVerbsOrNot(const TransportRequest& request, const UniqueIdParts& parts,
                                                  bool has_sockets) {
  return orSockets(makeVerbs(request, parts, has_sockets ? WithoutPaths::kUseControl : WithoutPaths::kFail),
                   "verbs", has_sockets, request.log, hasRdmaDevices() ? LogLevel::kWarn : LogLevel::kInfo);
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
    const auto place = names.tellg();
    const bool has_sockets =
        place >= 0 &&
        std::string_view(request.config.transports).substr(static_cast<size_t>(place)).find("socket") !=
            std::string_view::npos;
    if (name == "shm") {
      HORING_ASSIGN(auto shm, makeShmOrNot(request, parts, has_sockets));
      made.push_back(std::move(shm));
    } else if (name == "socket") {
      HORING_ASSIGN(auto socket, makeSocket(request, parts));
      made.push_back(std::move(socket));
    } else if (name == "verbs") {
      HORING_ASSIGN(auto verbs, makeVerbsOrNot(request, parts, has_sockets));
      made.push_back(std::move(verbs));
    } else {
      return makeStatus(Code::kInvalidArgument,
                        "HORING_TRANSPORTS=%s: '%s' is not a transport; there are shm, verbs and socket",
                        request.config.transports.c_str(), name.c_str());
    }
  }
  return made;
}

}  // namespace horing
