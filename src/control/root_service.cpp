#include "control/root_service.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "control/host_addresses.h"
#include "control/root_thread.h"

namespace horing {

namespace {

UniqueIdParts makeSecret(const RootOptions& options) {
  UniqueIdParts parts;
  if (options.secret) {
    parts.job = options.secret->job;
    parts.key = options.secret->key;
  } else {
    randomBytes(parts.job);
    parts.key = Key::random();
  }
  return parts;
}

// `address`: the interface of the listener, if not all.
Result<std::unique_ptr<RootService>> startOn(const RootOptions& options, Listener listener,
                                             std::optional<Address> address, const UniqueIdParts& parts) {
  RootListening listening{std::move(listener), {}, address};
  if (parts.roots.front().address.family != Address::Family::kLocal) {
    HORING_ASSIGN(listening.returns, listenOn(address ? &*address : nullptr, options.ports));
  }
  HORING_ASSIGN(const UniqueId id, encodeUniqueId(parts));
  auto service = std::make_unique<RootThread>(options, std::move(listening), parts, id);
  HORING_TRY(service->begin());
  options.log.info("root", "the rendezvous listens on %s%s", parts.roots.front().text().c_str(),
                   parts.roots.size() > 1 ? " and others" : "");
  return std::unique_ptr<RootService>(std::move(service));
}

}  // namespace

Result<std::unique_ptr<RootService>> RootService::start(const RootOptions& options) {
  Fd::closeInForkedChildren();
  UniqueIdParts parts = makeSecret(options);
  Listener listener;
  if (options.reach == RootOptions::Reach::kThisMachine) {
    parts.roots = {randomLocalEndpoint()};
    HORING_ASSIGN(listener, listenOn(&parts.roots.front().address, parts.roots.front().port));
  } else if (options.host.empty()) {
    HORING_ASSIGN(listener,
                  options.port ? listenOn(nullptr, options.port) : listenOn(nullptr, options.ports));
    HORING_ASSIGN(parts.roots, localAddresses({options.family, options.interfaces}, listener.port));
  } else {
    HORING_ASSIGN(parts.roots, resolveHost({options.host, 1}));
    HORING_ASSIGN(listener, listenOn(&parts.roots.front().address, options.port));
    parts.roots.resize(1);
    parts.roots.front().port = listener.port;
  }
  const bool everywhere = options.host.empty();
  return startOn(options, std::move(listener),
                 everywhere ? std::nullopt : std::optional(parts.roots.front().address), parts);
}

Result<ReservedRoot> reserveRoot(const RootOptions& options) {
  ReservedRoot reserved;
  reserved.parts = makeSecret(options);
  if (options.reach == RootOptions::Reach::kThisMachine) {
    reserved.parts.roots = {randomLocalEndpoint()};
    HORING_ASSIGN(reserved.listener, reservePort(&reserved.parts.roots.front().address, {}));
  } else {
    HORING_ASSIGN(reserved.listener, reservePort(nullptr, options.ports));
    HORING_ASSIGN(reserved.parts.roots,
                  localAddresses({options.family, options.interfaces}, reserved.listener.port));
  }
  HORING_ASSIGN(reserved.id, encodeUniqueId(reserved.parts));
  return reserved;
}

Result<std::unique_ptr<RootService>> RootService::start(const RootOptions& options,
                                                        const ReservedRoot& reserved) {
  Listener listener;
  listener.port = reserved.listener.port;
  listener.fd.reset(::fcntl(reserved.listener.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!listener.fd.valid()) return systemError(errno, "the rendezvous could not make its descriptors");
  if (::listen(listener.fd.get(), kListenBacklog) != 0)
    return systemError(errno, "the rendezvous cannot listen on port %u", unsigned{listener.port});
  return startOn(options, std::move(listener), std::nullopt, reserved.parts);
}

}  // namespace horing
