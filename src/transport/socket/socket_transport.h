#pragma once
// Ranks anywhere that TCP reaches: frames over one or several streams to each peer, slots at both ends.
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
  // Of NICs from this rank, as far as they are known: only the nearest are used, where they reach the peer.
  std::map<std::string, int> distance = {};
  std::string congestion;        // TCP congestion control; "": cubic where the kernel has it
  const Clock* clock = nullptr;  // must outlive the transport; for retries and for dropping silent clients
  // Whether somebody else would tell of the end of a peer's process: then one that refuses connections, which were there before, is
  // busy elsewhere, and cannot have seen yet that its listening socket was destroyed. Null: nobody would. Asked by whoever
  // drives the transport; what it uses must outlive that.
  std::function<bool()> deaths_are_told;
  Log log = Log();
};

inline constexpr int kMaxStreamsPerPair = 16;
// How long an accepted connection may take to prove the key.
inline constexpr int64_t kProofTimeoutMs = 5000;
// Connections that are still proving the key; the oldest is dropped for a newcomer, first of those that have said nothing.
inline constexpr size_t kMaxUnproven = 256;
// Proven connections of peers for which connect() has not been called here yet.
inline constexpr size_t kMaxParked = 4096;
// How long they are kept; who is dropped comes again as long as it wants.
inline constexpr int64_t kParkedMs = 60'000;
// A peer whose machine has not answered for this long, although data is on its way to it, is taken for dead.
inline constexpr int64_t kSilenceMs = 8000;

// Listens on all interfaces that the options choose. Fails, naming the variable, when they choose none that
// is there, or a congestion control that the kernel does not offer.
//
// Besides the contract of Transport: a peer that is refused or unreachable is tried again until the caller
// stops calling progress(); Link::describe() says what stands in the way. A peer that ends while a link to it
// is in use makes that link fail with kRemoteError. Destroying the transport waits (at most two seconds) for
// the kernel to hand over what was sent.
Result<std::unique_ptr<Transport>> makeSocketTransport(const SocketOptions& options);

}  // namespace horing
