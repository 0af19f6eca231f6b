#pragma once
// A plain TCP stream, to know what the link gives to a program that does nothing else: to the next node goes data while
// data from the previous node arrives.
#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace horing::bench {

// IPv4 addresses of the named interfaces, in that order; with no names, of the first that is up and not loopback.
Result<std::vector<in_addr>> interfaceAddresses(const std::vector<std::string>& names);

// Where a peer connects to. The token keeps strangers out.
struct StreamAddress {
  in_addr address{};
  uint16_t port = 0;
  uint64_t token = 0;
};

// Half of the path: a port that waits for the previous node.
class StreamListener {
 public:
  static Result<StreamListener> open(in_addr address);
  const StreamAddress& address() const { return address_; }
  // Waits for the peer that knows the token; drops everybody else.
  Result<Fd> accept(Deadline deadline);

 private:
  StreamListener(Fd fd, StreamAddress address) : fd_(std::move(fd)), address_(address) {}
  Fd fd_;
  StreamAddress address_;
};

Result<Fd> connectStream(const StreamAddress& to, Deadline deadline);

// One direction of traffic out, one in, at the same time.
struct DuplexStream {
  Fd out;
  Fd in;
};

// Sends `bytes` on each stream and receives as many; returns when all of it has arrived here and left here.
// Errors: kTimeout, kRemoteError (the peer closed), kSystemError.
Status exchange(const std::vector<DuplexStream>& streams, uint64_t bytes, Deadline deadline);

}  // namespace horing::bench
