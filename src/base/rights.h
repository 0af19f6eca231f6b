#pragma once
// The rights of this process, as far as what peers open of each other depends on them. They may change at any time: a server drops
// its privileges by setuid(), an agent makes itself undumpable by prctl().
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace horing {

struct Rights {
  uid_t user = ::geteuid();
  // Peers of the same user may open what is below /proc/PID, and read its memory. setuid() takes that away.
  bool is_dumpable = ::prctl(PR_GET_DUMPABLE) == 1;
  bool operator==(const Rights&) const = default;
};

}  // namespace horing
