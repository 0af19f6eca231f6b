#pragma once
// What kills the ranks, and all that they have started, when horing-run itself is killed without a chance to
// clean up.
#include <sys/types.h>

#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

// A process of its own that waits for horing-run to end and then kills the process groups it was told of. Resource.
class Guard {
 public:
  static Result<std::unique_ptr<Guard>> start();
  // Ends the guard without it killing anybody: by now horing-run has cleaned up by itself.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // To be called by a rank itself before it runs anything, since horing-run may be killed at any time: the
  // caller's process group is killed when horing-run ends with this object still alive. It must not be reaped
  // before, so that its number cannot come to mean anybody else.
  void watchMyGroup() const;

 private:
  Guard() = default;
  pid_t pid_ = -1;
  Fd news_;
};

}  // namespace horing::run
