#include "transport/shm/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <optional>
#include <vector>

#include "base/output.h"

namespace horing {
namespace {

constexpr char kPrefix[] = "horing-";
constexpr char kPresenceSuffix[] = ".rank";
constexpr int kCreateAttempts = 8;
constexpr char kMemoryName[] = "horing-slots";
constexpr int kMailboxSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::string folderOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Returns 0 or errno.
int allocate(int fd, uint64_t bytes) {
  const NoWriteSignals quiet;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  return error;
}

Status notAllocated(int error, uint64_t bytes, const std::string& path, const std::string& purpose) {
  const std::string folder = folderOf(path);
  const std::optional<uint64_t> free = freeBytes(folder);
  if (error != ENOSPC || !free)
    return systemError(error, "allocating %" PRIu64 " bytes in %s for %s", bytes, folder.c_str(),
                       purpose.c_str());
  return makeStatus(Code::kSystemError,
                    "%s is too small: %s needs %" PRIu64 " bytes, %" PRIu64
                    " are available. Enlarge it (docker run --shm-size=1g, or mount -o remount,size=1G %s), "
                    "or name another "
                    "directory (HORING_SHM_DIR)",
                    folder.c_str(), purpose.c_str(), bytes, *free, folder.c_str());
}

// Not in a sandbox without mbind().
void preferThisNode(const ShmMap& map) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};
  unsigned int node = 0;
  if (::syscall(SYS_getcpu, nullptr, &node, nullptr) != 0 || node >= kBits * nodes.size()) return;
  nodes[node / kBits] = 1UL << (node % kBits);
  (void)::syscall(SYS_mbind, map.data(), map.bytes(), MPOL_PREFERRED, nodes.data(), kBits * nodes.size(), 0);
}

Result<std::pair<OwnedName, Fd>> createEmpty(const std::string& path, const std::string& purpose) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid())
    return systemError(errno, "creating %s for %s (HORING_SHM_DIR)", path.c_str(), purpose.c_str());
  OwnedName name(path);
  // The umask may have removed needed permissions: peers open the file, too.
  if (::fchmod(fd.get(), 0600) != 0) return systemError(errno, "setting the mode of %s", path.c_str());
  return std::pair<OwnedName, Fd>(std::move(name), std::move(fd));
}

// The size is sealed: no process that opens it can shrink it while it is in use.
Result<Fd> createMemory(uint64_t bytes, const std::string& purpose) {
  Fd fd(::memfd_create(kMemoryName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return systemError(errno, "making memory for %s", purpose.c_str());
  if (const int error = allocate(fd.get(), bytes); error != 0)
    return systemError(error, "allocating %" PRIu64 " bytes for %s", bytes, purpose.c_str());
  if (::fchmod(fd.get(), 0600) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kMailboxSeals | F_SEAL_SEAL) != 0)
    return systemError(errno, "sealing the memory for %s", purpose.c_str());
  return fd;
}

Result<ShmFile> createElsewhere(const std::string& path, uint64_t bytes, const std::string& purpose) {
  HORING_ASSIGN(Fd fd, createMemory(bytes, purpose));
  const std::string target = formatString("/proc/%d/fd/%d", static_cast<int>(::getpid()), fd.get());
  if (::symlink(target.c_str(), path.c_str()) != 0)
    return systemError(errno, "creating %s for %s (HORING_SHM_DIR)", path.c_str(), purpose.c_str());
  OwnedName name(path);
  HORING_ASSIGN(ShmMap map, mapShmFile(fd.get(), bytes, path));
  return ShmFile{std::move(name), std::move(fd), std::move(map), true};
}

struct flock wholeFile(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Refuses files of another user or kind.
Status checkOwn(int fd, mode_t kind, const std::string& path) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return systemError(errno, "looking at %s", path.c_str());
  if ((facts.st_mode & S_IFMT) != kind || facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0) {
    return makeStatus(Code::kSystemError, "%s is not a file that a peer of this user made", path.c_str());
  }
  return {};
}

Result<Fd> openOwn(const std::string& path, int flags, mode_t kind) {
  Fd fd(::open(path.c_str(), flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() && errno == ENOENT) return Fd();
  if (!fd.valid()) return systemError(errno, "opening %s", path.c_str());
  HORING_TRY(checkOwn(fd.get(), kind, path));
  return fd;
}

bool isOurKind(mode_t mode) {
  return S_ISREG(mode) || S_ISFIFO(mode) || S_ISLNK(mode);
}

// The target of a symbolic link; empty: none.
std::string targetOf(const std::string& path) {
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

// Whether `path` is "/proc/PID/fd/N" and leads to memory that createMemory() made. Checked before it is opened: a wrong or stale number may
// name a device.
bool leadsToMemory(const std::string& path) {
  int pid = 0, fd = 0, end = 0;
  return std::sscanf(path.c_str(), "/proc/%9d/fd/%9d%n", &pid, &fd, &end) == 2 &&
         static_cast<size_t>(end) == path.size() &&
         targetOf(path) == formatString("/memfd:%s (deleted)", kMemoryName);
}

// Names in `directory` that may be horing's, presence files last: a presence file identifies the owner of the other files.
std::vector<std::string> ourNames(const std::string& directory) {
  std::vector<std::string> others, presences;
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) return others;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.rfind(kPrefix, 0) != 0 || name.find('.') == std::string::npos) continue;
    struct stat facts {};
    if (::fstatat(::dirfd(entries), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (facts.st_uid != ::geteuid() || !isOurKind(facts.st_mode)) continue;
    (name.ends_with(kPresenceSuffix) ? presences : others).push_back(name);
  }
  ::closedir(entries);
  others.insert(others.end(), presences.begin(), presences.end());
  return others;
}

enum class Owner : uint8_t { kUnknown, kLives, kGone };

// The state of a presence file's owner. If the owner is gone, locks the file, so that a process that is just making it notices. kUnknown:
// no file.
Owner claimOrphan(const std::string& presence_path, Fd* presence) {
  Result<Fd> opened = openShmFile(presence_path);
  if (!opened.ok()) return Owner::kLives;
  *presence = opened.take();
  if (!presence->valid()) return Owner::kUnknown;
  struct flock lock = wholeFile(F_WRLCK);
  if (::fcntl(presence->get(), F_OFD_SETLK, &lock) != 0) return Owner::kLives;
  // The file may have been removed since it was opened, and replaced by a new one.
  struct stat facts {};
  const bool is_there = ::fstat(presence->get(), &facts) == 0 && facts.st_nlink > 0;
  return is_there ? Owner::kGone : Owner::kLives;
}

}  // namespace

std::optional<uint64_t> freeBytes(const std::string& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return std::nullopt;
  return static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
}

OwnedName::OwnedName(std::string path) : path_(std::move(path)), pid_(::getpid()) {}

OwnedName& OwnedName::operator=(OwnedName&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(pid_, other.pid_);
  return *this;
}

Status OwnedName::rename(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) return systemError(errno, "renaming %s", path_.c_str());
  path_ = path;
  return {};
}

void OwnedName::remove() {
  if (!path_.empty() && pid_ == ::getpid()) ::unlink(path_.c_str());
  path_.clear();
}

Result<ShmFile> createShmFile(const std::string& path, uint64_t bytes, uint64_t spare_bytes,
                              const std::string& purpose) {
  const std::optional<uint64_t> free = freeBytes(folderOf(path));
  if (free && *free < bytes + spare_bytes) return createElsewhere(path + ".new", bytes, purpose);
  HORING_ASSIGN(auto made, createEmpty(path + ".new", purpose));
  // Other processes may fill the directory meanwhile.
  if (const int error = allocate(made.second.get(), bytes); error != 0) {
    made.first.remove();
    return error == ENOSPC ? createElsewhere(path + ".new", bytes, purpose)
                           : notAllocated(error, bytes, path, purpose);
  }
  HORING_ASSIGN(ShmMap map, mapShmFile(made.second.get(), bytes, path));
  return ShmFile{std::move(made.first), std::move(made.second), std::move(map)};
}

Result<ShmFile> createShmFileWithHoles(const std::string& path, uint64_t bytes, const std::string& purpose) {
  HORING_ASSIGN(auto made, createEmpty(path + ".new", purpose));
  const NoWriteSignals quiet;
  if (::ftruncate(made.second.get(), static_cast<off_t>(bytes)) != 0)
    return systemError(errno, "setting the size of %s", path.c_str());
  HORING_ASSIGN(ShmMap map, mapShmFile(made.second.get(), bytes, path));
  preferThisNode(map);
  return ShmFile{std::move(made.first), std::move(made.second), std::move(map), false, true};
}

Status publish(ShmFile& file, const std::string& path) {
  return file.name.rename(path);
}

Result<ShmFile> createPresenceFile(const std::string& path, uint64_t bytes, const std::string& purpose) {
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    HORING_ASSIGN(auto made, createEmpty(path, purpose));
    struct flock lock = wholeFile(F_WRLCK);
    int locked = -1;
    do locked = ::fcntl(made.second.get(), F_OFD_SETLKW, &lock);
    while (locked != 0 && errno == EINTR);
    if (locked != 0) return systemError(errno, "locking %s: its file system must have locks", path.c_str());
    // Between creation and locking it looked like an orphan, and may have been removed.
    struct stat facts {};
    if (::fstat(made.second.get(), &facts) != 0) return systemError(errno, "looking at %s", path.c_str());
    if (facts.st_nlink == 0) continue;
    if (const int error = allocate(made.second.get(), bytes); error != 0)
      return notAllocated(error, bytes, path, purpose);
    HORING_ASSIGN(ShmMap map, mapShmFile(made.second.get(), bytes, path));
    // The mapping keeps the open file, and with it the lock. A forked child inherits neither.
    made.second.reset();
    return ShmFile{std::move(made.first), Fd(), std::move(map)};
  }
  return makeStatus(Code::kSystemError, "%s was removed by another process %d times while it was made",
                    path.c_str(), kCreateAttempts);
}

Result<Fd> openShmFile(const std::string& path) {
  return openOwn(path, 0, S_IFREG);
}

Result<Fd> openShmMemory(const std::string& path) {
  // In this order, since the name may become a symbolic link at any time.
  Result<Fd> file = openShmFile(path);
  if (file.ok()) return file;
  const std::string target = targetOf(path);
  if (target.empty()) return file;
  struct stat link {};
  const bool is_own = ::lstat(path.c_str(), &link) == 0 && link.st_uid == ::geteuid();
  if (is_own && leadsToMemory(target)) {
    Fd fd(::open(target.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const std::string opened = formatString("/proc/self/fd/%d", fd.get());
    if (fd.valid() && targetOf(opened) == formatString("/memfd:%s (deleted)", kMemoryName) &&
        (::fcntl(fd.get(), F_GET_SEALS) & kMailboxSeals) == kMailboxSeals) {
      HORING_TRY(checkOwn(fd.get(), S_IFREG, path));
      return fd;
    }
  }
  return makeStatus(
      Code::kRemoteError,
      "%s is full, and %s, where a peer has its memory instead, cannot be reached from here: the "
      "process must be running, of the same user, in the same PID namespace. Enlarge the directory "
      "(docker run --shm-size=1g, or mount -o remount,size=1G %s), or name another (HORING_SHM_DIR)",
      folderOf(path).c_str(), target.c_str(), folderOf(path).c_str());
}

Result<uint64_t> shmFileBytes(int fd, const std::string& path) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return systemError(errno, "looking at %s", path.c_str());
  return static_cast<uint64_t>(facts.st_size);
}

Result<OwnedName> createBell(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) return systemError(errno, "making the FIFO %s", path.c_str());
  OwnedName name(path);
  if (::chmod(path.c_str(), 0600) != 0) return systemError(errno, "setting the mode of %s", path.c_str());
  return name;
}

Result<Fd> openBell(const std::string& path) {
  // Opened for reading, too, so that there is always a reader, and no write raises SIGPIPE.
  HORING_ASSIGN(Fd fd, openOwn(path, 0, S_IFIFO));
  if (!fd.valid()) return makeStatus(Code::kRemoteError, "%s is not there: its rank has left", path.c_str());
  return fd;
}

bool ownerIsGone(int presence_fd) {
  struct flock lock = wholeFile(F_WRLCK);
  return ::fcntl(presence_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

int removeOrphans(const std::string& directory) {
  int removed = 0;
  for (const std::string& name : ourNames(directory)) {
    Fd presence;
    const Owner owner =
        claimOrphan(directory + "/" + name.substr(0, name.find('.')) + kPresenceSuffix, &presence);
    // A presence file that existed a moment ago may be created again at any time.
    if (owner == Owner::kLives || (owner == Owner::kUnknown && name.ends_with(kPresenceSuffix))) continue;
    if (::unlink((directory + "/" + name).c_str()) == 0) ++removed;
  }
  return removed;
}

}  // namespace horing
