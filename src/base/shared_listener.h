#pragma once
// The port of this process: one for all of its communicators, which may be hundreds. A connection begins with the handshake of
// base/auth.h, which names its target; the name is not trusted, it only selects the object that checks the proof.
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/auth.h"
#include "base/fork_guard.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/port_range.h"
#include "base/strangers.h"

namespace horing {

// The most connections of a process that no NamedListener has taken yet.
inline constexpr size_t kMaxWaitingConnections = 256;

class SharedListener;

// One name at the shared port. Each take() accepts connections for all names: a connection for another name waits, its owner is notified,
// and its bytes are not read. Used by one thread at a time.
class NamedListener {
 public:
  // `network` distinguishes network stacks, between which a thread may move. Closed in a forked child, which gets a separate
  // listener.
  static Result<std::unique_ptr<NamedListener>> open(const PortRange& ports, uint64_t network,
                                                     const ListenerName& name);
  NamedListener(const NamedListener&) = delete;
  NamedListener& operator=(const NamedListener&) = delete;
  ~NamedListener();

  uint16_t port() const;
  // Readable while there are connections that no take() has seen.
  int fd() const;
  // From now on `notify` is called, on any thread, with each connection that waits for this name.
  void onWaiting(std::function<void(int fd)> notify);

  struct Arrivals {
    std::vector<Fd> connections;  // for this name, or for a name that no listener has
    int error = 0;                // not 0: why no connection can be accepted now
  };
  Arrivals take(int64_t now_ns, const Log& log);
  // Connections of the process that have not sent a name yet.
  size_t unnamed() const;

 private:
  friend class SharedListener;
  NamedListener(std::shared_ptr<SharedListener> listener, const ListenerName& name)
      : listener_(std::move(listener)), name_(name) {}
  std::shared_ptr<SharedListener> listener_;
  const ListenerName name_;
  std::function<void(int)> on_waiting_;  // guarded by the listener
};

// All members may be called from any thread.
class SharedListener {
 public:
  static Result<std::shared_ptr<SharedListener>> make(const PortRange& ports);
  uint16_t port() const { return port_; }
  int fd() const { return epoll_.get(); }
  size_t unnamed() const { return unnamed_count_.load(std::memory_order_relaxed); }
  void add(NamedListener& named);
  void remove(NamedListener& named);
  void onWaiting(NamedListener& named, std::function<void(int)> notify);
  NamedListener::Arrivals take(NamedListener& taker, int64_t now_ns, const Log& log);
  bool isOfParent() const { return fork_guard_.isForkedChild(); }

 private:
  struct Connection {
    Fd fd;
    Endpoint from;
    NamedListener* owner = nullptr;  // null: it has not sent a name yet
    bool heard = false;
  };
  // A call of take().
  struct Turn {
    NamedListener& taker;
    int64_t now_ns;
    const Log& log;
  };

  // The caller holds mutex_ for all functions below.
  Status listen();
  void listenAgain(const Log& log);
  int acceptAll(const Turn& turn);
  void admit(Accepted accepted, const Turn& turn);
  StrangerActions actions(const Turn& turn);
  bool makeRoom(const Turn& turn);
  void read(int fd, uint32_t events, const Turn& turn);
  void assign(int fd, NamedListener& owner, const Turn& turn);
  void drop(const Connection& connection, const Log& log, const std::string& why);
  void dropUnnamed(int fd, const Log& log, const std::string& why);

  ForkGuard fork_guard_;
  PortRange ports_;
  uint16_t port_ = 0;
  Fd epoll_;
  std::mutex mutex_;
  Listener listener_;
  std::map<int, Connection> unnamed_;  // by descriptor
  Strangers strangers_;                // the same connections
  std::list<Connection> waiting_;      // oldest first
  std::map<ListenerName, NamedListener*> named_;
  std::atomic<size_t> unnamed_count_{0};
};

}  // namespace horing
