#include "transport/socket/tuning.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace horing::tcp {

namespace {

// An idle connection to a machine that is gone ends after about 3 + 5 x 1 seconds. TCP_USER_TIMEOUT is left
// alone on purpose: it also ends connections to a healthy peer that merely does not read for a while (a
// closed window). What is unanswered while data is on its way is judged by SocketStream::checkAlive().
constexpr int kKeepIdleSeconds = 3;
constexpr int kKeepIntervalSeconds = 1;
constexpr int kKeepCount = 5;

Status setOption(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) == 0) return {};
  return systemError(errno, "socket option %s=%d", name, value);
}

bool setCongestion(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) ==
         0;
}

}  // namespace

Status tuneSocket(int fd, const SocketTuning& tuning) {
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  HORING_TRY(setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds, "TCP_KEEPIDLE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds, "TCP_KEEPINTVL"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount, "TCP_KEEPCNT"));
  // The default is a preference: cubic moves twice what bbr does over loopback and holds shaped links better.
  if (tuning.congestion.empty()) {
    setCongestion(fd, "cubic");
  } else if (!setCongestion(fd, tuning.congestion)) {
    return systemError(errno,
                       "HORING_SOCKET_CONGESTION=%s: this kernel does not offer it "
                       "(see /proc/sys/net/ipv4/tcp_available_congestion_control)",
                       tuning.congestion.c_str());
  }
  return {};
}

}  // namespace horing::tcp
