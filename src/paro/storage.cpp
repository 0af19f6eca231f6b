#include "paro/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/output.h"

namespace horing::paro {

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file(path);
  // Removes the leftover of a failed save; a symbolic link there is not followed.
  (void)::unlink(file.temporary().c_str());
  file.fd_ = openOutput(file.temporary(), O_EXCL, 0666);
  if (!file.fd_.valid()) return systemError(errno, "cannot create %s", file.temporary().c_str());
  return file;
}

NewFile::~NewFile() {
  if (fd_.valid()) (void)::unlink(temporary().c_str());
}

Status NewFile::write(const void* data, size_t bytes) {
  return writeAll(fd_.get(), {static_cast<const char*>(data), bytes}, temporary());
}

Status NewFile::commit() {
  if (::fsync(fd_.get()) != 0) return systemError(errno, "cannot bring %s to the disk", temporary().c_str());
  if (std::rename(temporary().c_str(), path_.c_str()) != 0)
    return systemError(errno, "cannot rename %s", temporary().c_str());
  fd_.reset();
  return {};
}

Result<OldFile> OldFile::open(const std::string& path) {
  // Non-blocking: opening a pipe without a writer would block for ever.
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return systemError(errno, "cannot open %s", path.c_str());
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return systemError(errno, "cannot look at %s", path.c_str());
  if (!S_ISREG(facts.st_mode)) return makeStatus(Code::kInvalidArgument, "%s is not a file", path.c_str());
  return OldFile(path, std::move(fd), static_cast<uint64_t>(facts.st_size));
}

Status OldFile::read(uint64_t offset, void* data, size_t bytes) const {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_.get(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(errno, "cannot read %s", path_.c_str());
    if (got == 0)
      return makeStatus(Code::kInvalidArgument,
                        "%s is truncated: it ends at byte %llu, and %zu more were expected", path_.c_str(),
                        static_cast<unsigned long long>(offset), bytes);
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status makeFolder(const std::string& folder) {
  return makeOneFolder(folder, 0777);
}

Status syncFolder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return systemError(errno, "cannot open the folder %s", folder.c_str());
  if (::fsync(fd.get()) != 0)
    return systemError(errno, "cannot bring the folder %s to the disk", folder.c_str());
  return {};
}

}  // namespace horing::paro
