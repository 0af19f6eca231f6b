#pragma once
// Breaking the TCP connections of this very process, as a network or an administrator (`ss -K`) does.
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace horing::testing {

// Resets both ends of each established connection for which `chosen` returns true. Returns the number of ends. Descriptors stay
// open, since the library does not know of it.
inline int breakConnections(const std::function<bool()>& chosen) {
  int broken = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
    if (info.tcpi_state != TCP_ESTABLISHED || !chosen()) continue;
    // Connecting to nothing sends a reset. Not by ::connect(): thread sanitizers take that for the making of a descriptor.
    const sockaddr nothing{.sa_family = AF_UNSPEC, .sa_data = {}};
    broken += ::syscall(SYS_connect, fd, &nothing, sizeof nothing) == 0 ? 1 : 0;
  }
  ::closedir(folder);
  return broken;
}

}  // namespace horing::testing
