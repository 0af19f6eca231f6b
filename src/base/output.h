#pragma once
// What is written to files and pipes, without harm to the program: no signal ends it, and its umask takes no right that is needed.
#include <sys/types.h>

#include <csignal>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace horing {

// While it lives, what this thread writes raises neither SIGPIPE (nobody reads the pipe) nor SIGXFSZ (ulimit -f): the call fails with EPIPE
// or EFBIG, and that is all. Resource.
class NoWriteSignals {
 public:
  NoWriteSignals();
  ~NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t before_;   // the thread's mask
  sigset_t pending_;  // of the two, what came from elsewhere
};

// Opens a file to write, or makes it. Its owner may read and write it, whatever the umask; the others may as `mode` and the umask have it.
// `flags`: besides O_WRONLY, O_CREAT and O_CLOEXEC. Not valid, and errno: it cannot.
Fd openOutput(const std::string& path, int flags, mode_t mode);
// A folder below one that is there; nothing where it is there itself. Its owner may use it, whatever the umask.
Status makeOneFolder(const std::string& path, mode_t mode);

// Errors name the file, and the limit where that is what stops it.
Status writeAll(int fd, std::string_view bytes, const std::string& path);
// In place of what was there; not through a symbolic link.
Status writeWholeFile(const std::string& path, std::string_view text);

}  // namespace horing
