#pragma once
// Links to any rank that TCP reaches: frames over one or several streams to each peer, slots at both ends.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/auth.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/port_range.h"
#include "base/status.h"
#include "transport/transport.h"

namespace horing {

struct SocketOptions {
  int rank = 0;
  Key key;                     // of the job; a connection whose other end cannot prove it is dropped
  std::string interfaces;      // as HORING_SOCKET_IFNAME
  std::string family = "any";  // as HORING_SOCKET_FAMILY: any, ipv4, ipv6
  PortRange ports;             // to listen on
  int streams = 1;             // to each peer over each pair of interfaces, 1 .. kMaxStreamsPerPair
  // Distances of NICs from this rank, as far as they are known: only the nearest that reach the peer are used.
  std::map<std::string, int> distance = {};
  const Clock* clock = nullptr;  // must outlive the transport; for retries and for dropping silent clients
  // Whether another source would report the end of a peer's process. Then a peer that refuses connections, after a link was open,
  // is busy and cannot have seen yet that its listening socket was destroyed. Null: there is no such source. Called by the thread
  // that drives the transport; the objects it uses must outlive that.
  std::function<bool()> deaths_are_told;
  Log log = Log();
};

inline constexpr int kMaxStreamsPerPair = 16;
// Proven connections of peers for which connect() has not been called here yet.
inline constexpr size_t kMaxUnclaimed = 4096;
// How long they are kept; a dropped peer connects again.
inline constexpr int64_t kUnclaimedMs = 60'000;

// Listens on all interfaces that the options choose. Fails, naming the variable, if they choose no existing interface.
//
// Beyond the contract of Transport: a peer that is refused or unreachable is tried again until the caller stops calling progress();
// Link::describe() names the obstacle. A peer that ends while a link to it is in use makes that link fail with kRemoteError.
// Destroying the transport waits (at most two seconds) for the kernel to send the remaining data.
Result<std::unique_ptr<Transport>> makeSocketTransport(const SocketOptions& options);

}  // namespace horing
