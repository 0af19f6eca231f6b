#pragma once
// Kills the ranks and their children when horing-run is killed without a chance to clean up.
#include <sys/types.h>

#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

// A separate process that waits for horing-run to end and then kills the registered process groups. Resource.
class Guard {
 public:
  static Result<std::unique_ptr<Guard>> start();
  // Ends the guard without killing: horing-run has cleaned up itself.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Called by a rank before it runs anything, since horing-run may be killed at any time: the caller's process group is killed if
  // horing-run ends before this object is destroyed. The rank must not be reaped before, so that its number is not reused.
  void watchMyGroup() const;

 private:
  Guard() = default;
  pid_t pid_ = -1;
  Fd news_;
};

}  // namespace horing::run
