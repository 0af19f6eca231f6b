#pragma once
// Writing to files and pipes without side effects on the program: no signal kills it, and its umask does not remove the owner's
// permissions.
#include <sys/types.h>

#include <csignal>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace horing {

// While it exists, writes of this thread raise neither SIGPIPE (no reader) nor SIGXFSZ (ulimit -f): they only fail with EPIPE or EFBIG.
// Resource.
class NoWriteSignals {
 public:
  NoWriteSignals();
  ~NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t before_;   // the thread's mask
  sigset_t pending_;  // which of the two signals were pending before
};

// Opens or creates a file for writing. The owner may read and write it, whatever the umask; other users get `mode` less the umask. `flags`:
// in addition to O_WRONLY, O_CREAT and O_CLOEXEC. On failure not valid, and errno is set.
Fd openOutput(const std::string& path, int flags, mode_t mode);
// Creates a folder, if missing, whose parent exists. The owner may use it, whatever the umask.
Status makeOneFolder(const std::string& path, mode_t mode);

// Errors name the file, and the resource limit if a limit is the cause.
Status writeAll(int fd, std::string_view bytes, const std::string& path);
// Replaces the file; does not follow a symbolic link.
Status writeWholeFile(const std::string& path, std::string_view text);
// As writeWholeFile(), but a reader finds the old file or the whole new text: writes a file with ".new" behind its name first.
Status replaceFile(const std::string& path, std::string_view text);
// Whether writeWholeFile() could write this file, as far as its folder or the file that is there tells: changes neither.
Status checkCreatable(const std::string& path);

}  // namespace horing
