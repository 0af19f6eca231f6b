#include "base/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "base/output.h"

namespace horing {

namespace {

// A folder that the environment names. The XDG specification ignores relative paths.
std::string folderIn(const char* variable) {
  const char* folder = std::getenv(variable);
  return folder && *folder == '/' ? folder : "";
}

}  // namespace

std::string cacheFolder(const std::string& setting) {
  if (setting == kNoCache) return "";
  if (!setting.empty()) return setting;
  const std::string caches = folderIn("XDG_CACHE_HOME"), home = folderIn("HOME");
  if (!caches.empty()) return caches + "/horing";
  return home.empty() ? "" : home + "/.cache/horing";
}

Result<std::optional<std::string>> readWhole(const std::string& path, size_t most_bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::optional<std::string>();
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return systemError(errno, "cannot read %s", path.c_str());
  if (!S_ISREG(info.st_mode)) return makeStatus(Code::kInvalidArgument, "%s is no file", path.c_str());
  std::string text(most_bytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t more = ::read(file.get(), text.data() + size, text.size() - size);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return systemError(errno, "cannot read %s", path.c_str());
    if (more == 0) break;
    size += static_cast<size_t>(more);
  }
  if (size > most_bytes)
    return makeStatus(Code::kInvalidArgument, "%s is longer than %zu bytes", path.c_str(), most_bytes);
  text.resize(size);
  return std::optional(std::move(text));
}

Status replaceWhole(const std::string& path, const std::string& text) {
  HORING_TRY(makeOneFolder(std::filesystem::path(path).parent_path(), 0777));
  std::string draft = path + ".XXXXXX";
  const Fd file(::mkostemp(draft.data(), O_CLOEXEC));
  if (!file.valid()) return systemError(errno, "cannot write %s", path.c_str());
  Status status = writeAll(file.get(), text, path);
  // Readable by every user: a whole cluster may share the folder.
  if (status.ok() && ::fchmod(file.get(), 0644) != 0)
    status = systemError(errno, "cannot write %s", path.c_str());
  if (status.ok() && std::rename(draft.c_str(), path.c_str()) != 0)
    status = systemError(errno, "cannot write %s", path.c_str());
  if (!status.ok()) ::unlink(draft.c_str());
  return status;
}

}  // namespace horing
