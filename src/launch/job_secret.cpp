#include "launch/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/fd.h"

namespace horing {

namespace {

Status checkKeyFile(const struct stat& info, const char* path) {
  if (!S_ISREG(info.st_mode))
    return makeStatus(Code::kInvalidArgument, "HORING_KEY_FILE=%s is not a file", path);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_KEY_FILE=%s belongs to user %u: it must belong to the user of this process, %u, or to root",
        path, info.st_uid, ::geteuid());
  if ((info.st_mode & 077) != 0)
    return makeStatus(Code::kInvalidArgument,
                      "HORING_KEY_FILE=%s can be read or written by others (mode %03o): run chmod 600 %s",
                      path, info.st_mode & 0777u, path);
  const auto size = static_cast<size_t>(info.st_size);
  if (size < kMinKeyFileBytes || size > kMaxKeyFileBytes)
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_KEY_FILE=%s has %zu bytes: expected %zu to %zu; head -c 32 /dev/urandom > %s makes one", path,
        size, kMinKeyFileBytes, kMaxKeyFileBytes, path);
  return {};
}

}  // namespace

Result<Key> readKeyFile(const std::string& path) {
  // Does not block on a pipe; the checks use the open descriptor, not the name.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return systemError(errno, "HORING_KEY_FILE=%s cannot be opened", path.c_str());
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return systemError(errno, "HORING_KEY_FILE=%s", path.c_str());
  HORING_TRY(checkKeyFile(info, path.c_str()));
  std::vector<std::byte> secret(static_cast<size_t>(info.st_size));
  size_t have = 0;
  while (have < secret.size()) {
    const ssize_t got = ::read(fd.get(), secret.data() + have, secret.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(errno, "HORING_KEY_FILE=%s cannot be read", path.c_str());
    if (got == 0)
      return makeStatus(Code::kSystemError, "HORING_KEY_FILE=%s became shorter while it was read",
                        path.c_str());
    have += static_cast<size_t>(got);
  }
  const Key key = Key::derive(secret, "key file");
  std::fill(secret.begin(), secret.end(), std::byte{0});
  return key;
}

Result<Key> configuredKey(const Config& config, const Log& log, const char* launcher) {
  if (!config.key_file.empty()) return readKeyFile(config.key_file);
  if (!config.insecure)
    return makeStatus(Code::kInvalidUsage,
                      "%s gives its ranks no secret: set HORING_KEY_FILE to a file with one (head -c 32 "
                      "/dev/urandom > job.key; "
                      "chmod 600 job.key), the same on every node; or HORING_INSECURE=1 where nobody else "
                      "reaches the network",
                      launcher);
  log.warn("launcher",
           "HORING_INSECURE=1: any process that reaches the rendezvous can join this job and read its data");
  return Key::derive({}, "no secret");
}

JobId jobIdOf(std::string_view text) {
  const Key hash = Key::derive(std::as_bytes(std::span(text)), "job id");
  JobId job;
  std::copy_n(hash.bytes.begin(), job.size(), job.begin());
  return job;
}

}  // namespace horing
