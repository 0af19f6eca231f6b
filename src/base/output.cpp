#include "base/output.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace horing {

namespace {

sigset_t writeSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  return signals;
}

Status notWritten(int error, const std::string& path) {
  rlimit limit{};
  if (error != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return systemError(error, "cannot write %s", path.c_str());
  return systemError(error, "cannot write %s, for files may have %llu bytes", path.c_str(),
                     static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace

NoWriteSignals::NoWriteSignals() {
  const sigset_t signals = writeSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  sigpending(&pending_);
}

NoWriteSignals::~NoWriteSignals() {
  const int error = errno;
  sigset_t now;
  sigpending(&now);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (!sigismember(&now, signal) || sigismember(&pending_, signal)) continue;
    sigset_t raised;
    sigemptyset(&raised);
    sigaddset(&raised, signal);
    constexpr timespec kAtOnce{};
    while (sigtimedwait(&raised, nullptr, &kAtOnce) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

Fd openOutput(const std::string& path, int flags, mode_t mode) {
  const int all = flags | O_WRONLY | O_CREAT | O_CLOEXEC;
  Fd made(::open(path.c_str(), all | O_EXCL, mode));
  struct stat facts {};
  if (made.valid() && ::fstat(made.get(), &facts) == 0 && (facts.st_mode & 0600) != 0600)
    (void)::fchmod(made.get(), (facts.st_mode & 07777) | 0600);
  return made.valid() || errno != EEXIST || (flags & O_EXCL) ? std::move(made)
                                                             : Fd(::open(path.c_str(), all, mode));
}

Status makeOneFolder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0)
    return errno == EEXIST ? Status() : systemError(errno, "cannot make the folder %s", path.c_str());
  struct stat facts {};
  // Does not follow a symbolic link: only a directory of this user gets new permissions.
  if (::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && (facts.st_mode & 0700) != 0700)
    (void)::chmod(path.c_str(), (facts.st_mode & 07777) | 0700);
  return {};
}

Status writeAll(int fd, std::string_view bytes, const std::string& path) {
  const NoWriteSignals quiet;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return notWritten(written < 0 ? errno : ENOSPC, path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status writeWholeFile(const std::string& path, std::string_view text) {
  const Fd file = openOutput(path, O_TRUNC | O_NOFOLLOW, 0644);
  if (!file.valid()) return systemError(errno, "cannot write %s", path.c_str());
  return writeAll(file.get(), text, path);
}

Status replaceFile(const std::string& path, std::string_view text) {
  const std::string draft = path + ".new";
  Status status = writeWholeFile(draft, text);
  if (status.ok() && ::rename(draft.c_str(), path.c_str()) != 0)
    status = systemError(errno, "cannot replace %s", path.c_str());
  if (!status.ok()) ::unlink(draft.c_str());
  return status;
}

Status checkCreatable(const std::string& path) {
  const Fd made = openOutput(path, O_EXCL | O_NOFOLLOW, 0644);
  if (made.valid()) {
    ::unlink(path.c_str());
    return {};
  }
  // A process of the same number may have left one, which is replaced.
  const bool is_left = errno == EEXIST && Fd(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)).valid();
  return is_left ? Status() : systemError(errno, "cannot write %s", path.c_str());
}

}  // namespace horing
