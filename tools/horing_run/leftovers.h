#pragma once
// Removes shared memory of killed ranks.
#include <sys/types.h>

#include <span>

namespace horing::run {

// Waits until these process groups, which have been sent SIGKILL, are empty, for 2 s at most. Then removes the files of
// dead processes of this user from the folder that ranks use for shared memory.
void removeLeftovers(std::span<const pid_t> groups);

}  // namespace horing::run
