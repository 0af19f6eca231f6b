#include "common/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace horing {

namespace {

Status cannotWrite(const std::string& path) {
  return systemError(errno, "cannot write %s", path.c_str());
}

Status writeInto(std::ofstream file, const std::string& path, const std::string& text) {
  file << text;
  file.close();
  return file ? Status() : cannotWrite(path);
}

// A new file beside `path` with the mode of that, which may lie in a folder where others make files and links. False: none can be made.
bool createPart(const std::string& part, const std::string& path) {
  const Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  struct stat found {};
  if (fd.valid() && ::lstat(path.c_str(), &found) == 0) (void)::fchmod(fd.get(), found.st_mode & 0777);
  return fd.valid();
}

// Not pipes, devices and links, which may lead to a file that others have open.
bool isReplaceable(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? S_ISREG(found.st_mode) : errno == ENOENT;
}

}  // namespace

Status writeFile(const std::string& path, const std::string& text) {
  if (isReplaceable(path)) {
    const std::string part = path + "." + std::to_string(::getpid()) + ".part";
    if (createPart(part, path)) {
      const Status written = writeInto(std::ofstream(part), path, text);
      if (written.ok() && std::rename(part.c_str(), path.c_str()) == 0) return {};
      (void)::unlink(part.c_str());
      if (!written.ok()) return written;
    }
  }
  // Also a file in a folder that is not writable, and one that is mounted.
  return writeInto(std::ofstream(path), path, text);
}

Status checkWritable(const std::string& path) {
  std::error_code none;
  const bool is_there = std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (const std::ofstream file(path, std::ios::app); !file) return cannotWrite(path);
  if (!is_there) (void)::unlink(path.c_str());
  return {};
}

}  // namespace horing
