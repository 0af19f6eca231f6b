#include "capi/rendezvous_list.h"

#include <list>
#include <mutex>

#include "base/fork_guard.h"

namespace horing {

namespace {

struct Rendezvous {
  UniqueId id;
  std::shared_ptr<RootService> unclaimed;
  std::weak_ptr<RootService> service;
  ForkGuard fork_guard{};
};
struct RendezvousList {
  std::mutex mutex;
  std::list<Rendezvous> entries;
};
RendezvousList& rendezvousList() {
  static auto* list = new RendezvousList;  // never destroyed: its threads may outlive static destruction
  return *list;
}

}  // namespace

Result<UniqueId> openRendezvous(const Config& config, RootOptions::Reach reach, Patience patience) {
  RootOptions options;
  if (patience == Patience::kEndless) options.idle_timeout_ms.reset();
  options.reach = reach;
  options.family = config.socket_family;
  options.interfaces = config.socket_ifname;
  HORING_ASSIGN(options.ports, parsePortRange(config.ports));
  options.log = Log(config.logLevel());
  HORING_ASSIGN(std::shared_ptr<RootService> service, RootService::start(options));
  const UniqueId id = service->id();
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  list.entries.remove_if([](const Rendezvous& old) {
    const auto alive = old.service.lock();
    return !alive || alive->finished();
  });
  list.entries.emplace_back(id, service, service);
  return id;
}

std::shared_ptr<RootService> claimRendezvous(const UniqueId& id) {
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  for (Rendezvous& entry : list.entries) {
    // A forked child joins its parent's rendezvous like anybody else.
    if (entry.id != id || entry.fork_guard.isForkedChild()) continue;
    std::shared_ptr<RootService> service = entry.service.lock();
    entry.unclaimed.reset();
    return service;
  }
  return nullptr;
}

}  // namespace horing
