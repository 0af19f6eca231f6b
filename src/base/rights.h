#pragma once
// The rights of this process that decide whether peers can open each other's memory and files. They may change at any time: a server drops
// its privileges by setuid(), an agent makes itself undumpable by prctl().
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace horing {

struct Rights {
  uid_t user = ::geteuid();
  // Peers of the same user may open files below /proc/PID and read the process's memory. setuid() revokes that.
  bool is_dumpable = ::prctl(PR_GET_DUMPABLE) == 1;
  bool operator==(const Rights&) const = default;
};

}  // namespace horing
