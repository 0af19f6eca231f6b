#include "capi/rendezvous_list.h"

#include <list>
#include <mutex>

namespace horing {

namespace {

struct Rendezvous {
  UniqueId id;
  std::shared_ptr<RootService> unclaimed;
  std::weak_ptr<RootService> service;
};
struct RendezvousList {
  std::mutex mutex;
  std::list<Rendezvous> entries;  // latest first
};
// The number of ended rendezvous that are remembered, so that reuse of their IDs is refused at once.
constexpr size_t kMostEnded = 100;
RendezvousList& rendezvousList() {
  static auto* list = new RendezvousList;  // never destroyed: its threads may outlive static destruction
  return *list;
}

// A forked child does not know the state of its parent's rendezvous.
bool hasEnded(const RootService* service) {
  return !service || (!service->isOfParent() && service->finished());
}

}  // namespace

Result<UniqueId> openRendezvous(const Config& config, RootOptions::Reach reach, IdleLimit limit) {
  RootOptions options;
  if (limit == IdleLimit::kEndless) options.idle_timeout_ms.reset();
  options.reach = reach;
  options.family = config.socket_family;
  options.interfaces = config.socket_ifname;
  HORING_ASSIGN(options.ports, parsePortRange(config.ports));
  options.log = config.log();
  HORING_ASSIGN(std::shared_ptr<RootService> service, RootService::start(options));
  const UniqueId id = service->id();
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  size_t ended = 0;
  list.entries.remove_if([&](Rendezvous& old) {
    if (!hasEnded(old.service.lock().get())) return false;
    old.unclaimed.reset();
    return ++ended > kMostEnded;
  });
  list.entries.push_front({id, service, service});
  return id;
}

Result<std::shared_ptr<RootService>> claimRendezvous(const UniqueId& id) {
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  for (Rendezvous& entry : list.entries) {
    if (entry.id != id) continue;
    std::shared_ptr<RootService> service = entry.service.lock();
    if (hasEnded(service.get()))
      return makeStatus(
          Code::kInvalidUsage,
          "this unique ID was used already, or its communicator was not made in time; it is valid "
          "for one: make another with horingGetUniqueId");
    // A forked child joins its parent's rendezvous like any other process.
    if (service->isOfParent()) break;
    entry.unclaimed.reset();
    return service;
  }
  return std::shared_ptr<RootService>();
}

bool isUsedUp(const UniqueId& id) {
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  for (const Rendezvous& entry : list.entries)
    if (entry.id == id) return hasEnded(entry.service.lock().get());
  return false;
}

}  // namespace horing
