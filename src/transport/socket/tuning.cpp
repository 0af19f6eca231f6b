#include "transport/socket/tuning.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

namespace horing::tcp {

namespace {

Status setOption(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) == 0) return {};
  return systemError(errno, "socket option %s=%d", name, value);
}

}  // namespace

Status tuneSocket(int fd) {
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  HORING_TRY(setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds, "TCP_KEEPIDLE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds, "TCP_KEEPINTVL"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount, "TCP_KEEPCNT"));
  // TCP_USER_TIMEOUT is not set, since it also ends connections to a healthy peer that merely does not read for a while (a closed window).
  // SocketStream::checkAlive() judges unanswered data.
  // Where the kernel offers it: cubic moves twice as much as bbr over loopback, and holds shaped links better. A route with `congctl lock`
  // overrides it.
  constexpr std::string_view kCubic = "cubic";
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCubic.data(), static_cast<socklen_t>(kCubic.size()));
  return {};
}

}  // namespace horing::tcp
