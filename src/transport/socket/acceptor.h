#pragma once
// The accepting end: connections to the process's port that have named this transport, first while they have not proved the key,
// then until a link claims them.
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proof.h"
#include "base/shared_listener.h"
#include "base/strangers.h"
#include "transport/socket/poller.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

struct AcceptorOptions {
  int rank = 0;
  Key key;
  Instance instance{};
  PortRange ports;
  uint64_t network = 0;  // see networkStackId()
  Log log = Log();
};

// A connection whose other end has proved the key and named this rank as its peer. Its numbers are within limits.
struct ProvenConnection {
  ConnectorHello hello;
  WatchedFd fd;
  int64_t deadline_ns = 0;  // until a link claims it
};

class Acceptor final : public PollTarget {
 public:
  Acceptor(AcceptorOptions options, Poller& poller, const Clock& clock);

  Status open();
  uint16_t port() const { return listener_->port(); }
  // Whether connections wait for progress(), for a transport whose poller is not open yet.
  bool hasArrivals();
  // Closes those connections: the peers connect again.
  void closeArrivals(const std::string& why);
  // From now on the poller, which is open, reports new connections.
  Status watch();
  // Accepts, continues proofs, drops connections that are too late. Proven connections are kept until a link claims them.
  void progress();
  // Drops connections that were kept for too long, and accepts again after a pause. Call this at least each second.
  void tick();
  // Takes a proven connection for this link of this rank and instance, if there is one.
  std::optional<ProvenConnection> claim(int rank, const Instance& instance, int number);
  // Not ok: this machine has no descriptor for another connection now.
  Status refusesAll() const;
  bool hasUnclaimed() const { return !unclaimed_.empty(); }
  // Whether a connection was proven since the last call.
  bool hasNewlyProven() { return std::exchange(has_newly_proven_, false); }
  // Number of connections that have not proven the key yet.
  size_t unproven() const { return strangers_.size(); }

  void onEvents(uint32_t) override { has_events_ = true; }

 private:
  // A connection that has not proven the key yet.
  struct Unproven final : PollTarget {
    Unproven(WatchedFd accepted, const HandshakeOptions& options)
        : fd(std::move(accepted)), handshake(options) {}
    void onEvents(uint32_t) override { has_event = true; }
    WatchedFd fd;
    Handshake handshake;
    bool has_event = true;
  };

  StrangerActions actions();
  void look();
  void pauseAccepting(int error);
  // False: there is no connection to close.
  bool makeRoom(const char* why);
  void admitAll();
  void admit(Fd fd);
  void serve(int fd);
  void keep(Unproven& connection);
  Status checkHello(const ConnectorHello& hello) const;
  void drop(const WatchedFd& fd, const std::string& why) const;
  void dropUnproven(int fd, const std::string& why);

  AcceptorOptions options_;
  Poller& poller_;
  const Clock& clock_;
  std::unique_ptr<NamedListener> listener_;
  std::vector<Fd> arrived_;  // not admitted yet
  bool has_events_ = false;
  int pauses_for_ = 0;  // the error after which it accepts nothing until the next tick
  bool has_newly_proven_ = false;
  std::map<int, std::unique_ptr<Unproven>> unproven_;  // by descriptor
  Strangers strangers_;                                // the same connections
  std::vector<ProvenConnection> unclaimed_;            // oldest first
};

}  // namespace horing::tcp
