#pragma once
// Listening sockets, connecting sockets, and accepted ones.
#include <cstdint>
#include <functional>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/port_range.h"
#include "base/status.h"

namespace horing {

struct Listener {
  Fd fd;
  uint16_t port = 0;
};
inline constexpr int kListenBacklog = 4096;
// Listens at one address, or at all IP addresses of this machine (nullptr: of both families where the kernel has IPv6, else
// IPv4), with `port` (0: a free one). Non-blocking, closed on exec.
Result<Listener> listenOn(const Address* address, uint16_t port);
// The same on a free port of the range.
Result<Listener> listenOn(const Address* address, const PortRange& ports);
// Takes a free port of the range, at all IP addresses or a local address, exclusively; connections are refused until ::listen() is
// called.
Result<Listener> reservePort(const Address* local, const PortRange& ports);

// The result of acceptNext().
struct Accepted {
  enum class Outcome : uint8_t {
    kOne,        // `fd`, non-blocking, closed on exec
    kNone,       // no connection waits
    kLacking,    // a connection waits, but this machine lacks a resource for it: `error`
    kDestroyed,  // the listening socket was destroyed (`ss -K`)
  };
  Outcome outcome = Outcome::kNone;
  Fd fd;
  Endpoint from = {};
  int error = 0;
};
Accepted acceptNext(const Fd& listener);
// Accepts the connections that wait, at most 64: the listening socket stays readable for the others. `admit(Accepted)` takes each.
// `makeRoom(error)` is called where this machine lacks a resource: whether to try again. Returns kNone, or what stopped it: kLacking,
// kDestroyed.
Accepted acceptWaiting(const Fd& listener, const std::function<void(Accepted)>& admit,
                       const std::function<bool(int error)>& makeRoom);

// A stream socket, non-blocking, closed on exec. Errors are of this machine.
Result<Fd> openSocket(Address::Family family);
// Starts a connect, by the interface that a link-local address names. The connect is complete when the socket becomes writable. Returns 0,
// or an errno; the error may be temporary.
int beginConnect(int socket, const Endpoint& to);

}  // namespace horing
