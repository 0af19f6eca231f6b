#pragma once
// The rendezvous of one communicator, and afterwards the centre of its control plane.
//
// It lives in the process that made the unique ID (or in the launcher): one listening socket, one thread.
// Ranks connect (control/control.h), prove that they know the key, say which rank they are and then take part in
// numbered all-gathers. When one of them disappears, or announces an error, every other rank hears of it,
// with rank and reason, at once. Strangers (scanners, HTTP probes, silent connections) are dropped and
// disturb nothing. A rank whose connection breaks may return, through a port that only the ranks know, and
// is not missed before kReturnMs.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/auth.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/status.h"
#include "control/unique_id.h"

namespace horing {

inline constexpr int kMaxRanks = 65536;
// Connections that have not yet proved the key; one more pushes the oldest out, first of those that have said nothing.
inline constexpr int kMaxPendingConnections = 256;
inline constexpr int64_t kHandshakeTimeoutMs = 5000;
// How long a rank whose connection broke may take to return. A process that ended closes its connections in order, or is
// betrayed by this; a machine that hangs falls silent (control/liveness.h).
inline constexpr int64_t kReturnMs = 2000;
// How long the rank itself tries. Longer, since it may notice earlier than the rendezvous, whose verdict counts.
inline constexpr int64_t kReturnTryMs = 3500;
// The most that one rank may give to one all-gather.
inline constexpr size_t kMaxGatherBytes = 256 * 1024;

struct RootOptions {
  // Who shall be able to come: ranks anywhere, or only those of this process and machine; those need no network.
  enum class Reach : uint8_t { kNetwork, kThisMachine };
  Reach reach = Reach::kNetwork;
  // Where to listen on the network. Empty: every interface, and the ID names all usable addresses of this machine.
  // Otherwise a numeric address or host name of this machine, and only it is named.
  std::string host;
  uint16_t port = 0;  // 0: one that is free
  // What is free to choose is chosen from these.
  PortRange ports{};
  // "any", "ipv4" or "ipv6" and interface patterns, as HORING_SOCKET_FAMILY and HORING_SOCKET_IFNAME; they
  // choose and order the addresses in the ID.
  std::string family = "any";
  std::string interfaces;
  // Made at random when not given.
  const UniqueIdParts* secret = nullptr;  // only .job and .key are used
  // Ends the service when nobody has come after this time. Nothing: it waits as long as it lives.
  std::optional<int64_t> idle_timeout_ms = 600'000;
  // A connection that has not proved the key and said who it is by then is dropped.
  int64_t handshake_timeout_ms = kHandshakeTimeoutMs;
  Log log{};
};

// A rendezvous that may be begun later: its ID is known and its port taken, but who connects is refused.
struct ReservedRoot {
  UniqueIdParts parts;
  UniqueId id;
  Listener listener;
};
// .host and .port are not looked at: it is free to choose.
Result<ReservedRoot> reserveRoot(const RootOptions& options);

// Owner of the listener and its thread. All members may be called from any thread.
class RootService {
 public:
  // From then on forked children close what this process holds, see Fd::closeInForkedChildren().
  static Result<std::unique_ptr<RootService>> start(const RootOptions& options);
  // Begins one that was reserved. May be done again when the service has ended, since the port stays taken.
  static Result<std::unique_ptr<RootService>> start(const RootOptions& options, const ReservedRoot& reserved);
  // Tells the ranks that are still there that the rendezvous closes (no error for them unless they need it
  // again), stops the thread and joins it. Takes milliseconds, at most 1 s when a rank does not read, and 3 s when connections
  // are broken whose ranks may return.
  virtual ~RootService() = default;

  // Give this to every rank.
  virtual const UniqueId& id() const = 0;
  virtual uint16_t port() const = 0;
  // True when the thread has ended by itself: every rank has left, or nobody ever came.
  virtual bool finished() const = 0;
  // Ranks that come now are told why there will be no communicator.
  virtual bool failed() const = 0;
  // It was started by the process that this one is a fork of: there is nothing of it here.
  virtual bool isOfParent() const = 0;
  // Waits until it is finished. False when the time passes first.
  virtual bool waitFinished(int64_t timeout_ms) const = 0;
};

}  // namespace horing
