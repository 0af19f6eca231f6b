#pragma once
// Bytes that crossed this node's interfaces, as the kernel counts them: headers and retransmissions too.
#include <cstdint>
#include <string>

#include "base/status.h"

namespace horing::bench {

struct LinkBytes {
  uint64_t received = 0;
  uint64_t sent = 0;
};

// The sum over all interfaces but the loopback. `directory` is laid out as /sys/class/net. Errors: kSystemError.
Result<LinkBytes> readLinkBytes(const std::string& directory = "/sys/class/net");

}  // namespace horing::bench
