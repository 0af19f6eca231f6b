#pragma once
// The rendezvous of one communicator, and afterwards the centre of its control plane.
//
// It runs in the process that made the unique ID (or in the launcher): one listening socket, one thread. Ranks connect
// (control/control.h), prove that they know the key, introduce themselves and then take part in numbered all-gathers. When a rank
// disappears or announces an error, all other ranks receive its number and the reason at once. Other connections (scanners, HTTP
// probes, silent ones) are dropped and do no harm. A rank whose connection breaks may return within kReturnMs, through a port that
// only the ranks know.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/auth.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strangers.h"
#include "control/unique_id.h"

namespace horing {

inline constexpr int kMaxRanks = 65536;
// How long a rank whose connection broke may take to return. The kernel closes the connections of a process that ends in order; a
// machine that hangs falls silent (control/liveness.h).
inline constexpr int64_t kReturnMs = 2000;
// How long the rank itself tries: longer, since it may notice the break before the rendezvous, whose decision counts.
inline constexpr int64_t kReturnTryMs = kReturnMs + 1500;
// How long a rank waits for the rendezvous to confirm its last message, on a connection that holds.
inline constexpr int64_t kGoodbyeMs = 1000;
// The largest blob that a rank may give to one all-gather.
inline constexpr size_t kMaxGatherBytes = 256 * 1024;

struct RootOptions {
  // Where ranks can be: anywhere, or only in this process and on this machine, which needs no network.
  enum class Reach : uint8_t { kNetwork, kThisMachine };
  Reach reach = Reach::kNetwork;
  // The interface to listen on. Empty: every interface, and the ID names all usable addresses of this machine. Otherwise a numeric
  // address or host name of this machine, and the ID names only that.
  std::string host;
  uint16_t port = 0;  // 0: any free port
  // The range from which free ports are taken.
  PortRange ports{};
  // "any", "ipv4" or "ipv6" and interface patterns, as HORING_SOCKET_FAMILY and HORING_SOCKET_IFNAME; they select and order the
  // addresses in the ID.
  std::string family = "any";
  std::string interfaces;
  // Random if not given.
  const UniqueIdParts* secret = nullptr;  // only .job and .key are used
  // Ends the service if no rank has arrived after this time. Nothing: it waits for ever.
  std::optional<int64_t> idle_timeout_ms = 600'000;
  // A connection that has not proved the key and introduced itself by then is dropped.
  int64_t proof_timeout_ms = kProofTimeoutMs;
  Log log{};
};

// A rendezvous that may be started later: its ID is known and its port taken, but connections are refused.
struct ReservedRoot {
  UniqueIdParts parts;
  UniqueId id;
  Listener listener;
};
// .host and .port are not used: the port is free to choose.
Result<ReservedRoot> reserveRoot(const RootOptions& options);

// Owns the listener and its thread. All members may be called from any thread.
class RootService {
 public:
  // From then on forked children close this process's descriptors, see Fd::closeInForkedChildren().
  static Result<std::unique_ptr<RootService>> start(const RootOptions& options);
  // Starts a service that was reserved. May be called again after the service has ended, since the port stays taken.
  static Result<std::unique_ptr<RootService>> start(const RootOptions& options, const ReservedRoot& reserved);
  // Sends Closing to all present ranks (no error for them unless they need the rendezvous again), stops the thread and joins it.
  // Takes milliseconds; at most 1 s when a rank does not read, and 3 s when broken connections may return.
  virtual ~RootService() = default;

  // Number of services in this process, without finished ones.
  static int running();

  // The ID to give to every rank.
  virtual const UniqueId& id() const = 0;
  virtual uint16_t port() const = 0;
  // True when the thread has ended by itself: all ranks have left, or none ever arrived.
  virtual bool finished() const = 0;
  // From now on arriving ranks receive this error: the communicator will never be complete.
  virtual bool failed() const = 0;
  // The service belongs to the parent of this forked process; it does not run here.
  virtual bool isOfParent() const = 0;
  // Waits until it is finished. False: the time passed first.
  virtual bool waitFinished(int64_t timeout_ms) const = 0;
};

}  // namespace horing
