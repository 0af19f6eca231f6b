#pragma once
// The accepting end: a listener, the connections that still have to prove themselves, and those that have done so before
// anybody here asked for them.
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "base/listener.h"
#include "base/log.h"
#include "transport/socket/poller.h"
#include "transport/socket/proof.h"
#include "transport/socket/tuning.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

struct ReceptionOptions {
  int rank = 0;
  Key key;
  Instance instance{};
  SocketTuning tuning;
  PortRange ports;
  Log log = Log();
};

// A connection whose other end holds the key and says that it is meant for this rank. What it says is within limits.
struct Guest {
  ConnectorHello hello;
  WatchedFd fd;
  int64_t deadline_ns = 0;  // of being parked
};

class Reception final : public PollTarget {
 public:
  Reception(ReceptionOptions options, Poller& poller, const Clock& clock);

  Status open();
  uint16_t port() const { return listener_.port; }
  // Accepts, goes on with proofs, drops who is too late. New guests are parked.
  void progress();
  // What time brings: drops those that were parked for too long, accepts again after a pause. At least each second.
  void tick();
  // A parked connection for this link of this rank and instance, if there is one.
  std::optional<Guest> takeGuest(int rank, const Instance& instance, int number);
  // Not ok: this machine has no descriptor for whoever comes now.
  Status refusesAll() const;
  bool hasGuests() const { return !parked_.empty(); }
  // Whether a guest has come since the last call.
  bool guestsCame() { return std::exchange(guests_came_, false); }
  // Connections that have not proven the key yet.
  size_t unproven() const { return visitors_.size(); }

  void onEvents(uint32_t) override { rings_ = true; }

 private:
  // A connection that has not proven anything yet.
  struct Visitor final : PollTarget {
    Visitor(WatchedFd accepted, const HandshakeOptions& options, int64_t deadline)
        : fd(std::move(accepted)), handshake(options), deadline_ns(deadline) {}
    void onEvents(uint32_t) override { stirred = true; }
    WatchedFd fd;
    Handshake handshake;
    int64_t deadline_ns;
    bool stirred = true;
  };

  Status listen();
  void listenAgain();
  void acceptAll();
  void pauseAccepting(int error);
  // False: there is nobody whose connection could be closed.
  bool makeRoom(const char* why);
  void dropVisitor(const char* why);
  void admit(Fd fd);
  // True when the visitor is done with, one way or the other.
  bool serve(Visitor& visitor);
  void park(Visitor& visitor);
  Status checkHello(const ConnectorHello& hello) const;
  void drop(const WatchedFd& fd, const std::string& why) const;

  ReceptionOptions options_;
  Poller& poller_;
  const Clock& clock_;
  Listener listener_;
  bool rings_ = false;
  int pauses_for_ = 0;  // the error for which it accepts nobody until the next tick
  bool guests_came_ = false;
  std::list<std::unique_ptr<Visitor>> visitors_;  // oldest first
  std::vector<Guest> parked_;                     // oldest first
};

}  // namespace horing::tcp
