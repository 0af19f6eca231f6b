#include "transport/socket/tcp_counts.h"

// The C library's tcp_info ends before these counters, and both headers cannot be read by one source.
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace horing::tcp {

StreamPace::Counts tcpCounts(int fd) {
  struct tcp_info info = {};
  socklen_t length = sizeof info;
  int waiting = 0;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  if (::ioctl(fd, SIOCOUTQ, &waiting) != 0) return {};
  constexpr uint64_t kNsPerUs = 1000;
  return {.acknowledged = info.tcpi_bytes_acked,
          .busy_ns = kNsPerUs * (info.tcpi_busy_time - info.tcpi_rwnd_limited),
          .waiting = static_cast<uint64_t>(waiting)};
}

}  // namespace horing::tcp
