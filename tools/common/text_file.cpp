#include "common/text_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace horing {

namespace {

Status cannotWrite(const std::string& path) {
  return systemError(errno, "cannot write %s", path.c_str());
}

Status writeInto(std::ofstream& file, const std::string& path, const std::string& text) {
  file << text;
  file.close();
  return file ? Status() : cannotWrite(path);
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
    if (std::ofstream file(part); file) {
      const Status written = writeInto(file, path, text);
      if (written.ok() && std::rename(part.c_str(), path.c_str()) == 0) return {};
      (void)::unlink(part.c_str());
      if (!written.ok()) return written;
    }
  }
  // Also a file in a folder that is not writable, and one that is mounted.
  std::ofstream file(path);
  return writeInto(file, path, text);
}

Status checkWritable(const std::string& path) {
  std::error_code none;
  const bool is_there = std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (const std::ofstream file(path, std::ios::app); !file) return cannotWrite(path);
  if (!is_there) (void)::unlink(path.c_str());
  return {};
}

}  // namespace horing
