#pragma once
// Files of horing in a shared-memory directory: creation, and removal of files of dead processes.
//
// All files of one rank share a *stem* and differ in what follows the first '.' :
//   horing-JOB-NONCE-RANK.rank      presence file; its owner holds a lock on it as long as its process runs
//   horing-JOB-NONCE-RANK.from-7-0  slots that rank 7 sends into over its link 0 to this rank; gone as soon as
//                                   rank 7 has mapped them. Where the directory is full, a symbolic link
//                                   to memory of the rank's process: /proc/PID/fd/N, a memfd
//   horing-process-NONCE.rank       presence of a process, or of some of its ranks, with their bell
//   horing-process-NONCE.bell       FIFO
// A file whose stem has no locked presence file is an orphan. The lock is an open file description lock: the kernel releases it however the
// process ends, and it works across PID namespaces, where a reused process ID would mislead.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/status.h"
#include "transport/shm/file_map.h"

namespace horing {

// A name in the directory that this process created; removed at the latest by the destructor. A forked child does not remove its parent's
// files.
class OwnedName {
 public:
  OwnedName() = default;
  explicit OwnedName(std::string path);
  OwnedName(OwnedName&& other) noexcept : path_(std::exchange(other.path_, {})), pid_(other.pid_) {}
  OwnedName& operator=(OwnedName&& other) noexcept;
  ~OwnedName() { remove(); }

  const std::string& path() const { return path_; }
  Status rename(const std::string& path);
  void remove();

 private:
  std::string path_;
  int pid_ = 0;
};

struct ShmFile {
  OwnedName name;
  Fd fd;
  ShmMap map;                 // zero bytes at first
  bool is_elsewhere = false;  // the name is a symbolic link
  bool has_holes = false;
};

// A new file, readable and writable by its user only, under `path` plus ".new" until publish() renames it: so a peer finds it complete or
// not at all. All of its memory is allocated: no SIGBUS later. If the directory has less room than that plus spare_bytes, the memory is a
// memfd, which no directory limits, and the name is a symbolic link to it, valid as long as `fd` is open. `purpose`: for errors.
Result<ShmFile> createShmFile(const std::string& path, uint64_t bytes, uint64_t spare_bytes,
                              const std::string& purpose);
// The same without memory: populatePages() comes before every write, or SIGBUS may. Whoever calls that, the memory comes from this thread's
// NUMA node where the system lets a process choose, as if it were allocated here.
Result<ShmFile> createShmFileWithHoles(const std::string& path, uint64_t bytes, const std::string& purpose);
Status publish(ShmFile& file, const std::string& path);
// Left free for presence files.
inline constexpr uint64_t kSpareBytes = 256 << 10;
// A file in the directory, under its name at once, with the owner's lock, which lasts as long as the mapping: no descriptor is
// kept. No other process ever takes it for an orphan. If the directory is too small, the error gives the size wanted and the room
// left.
Result<ShmFile> createPresenceFile(const std::string& path, uint64_t bytes, const std::string& purpose);
// Opens a peer's regular file of this user. Result with an invalid Fd: there is no such file (yet).
Result<Fd> openShmFile(const std::string& path);
// The same for a file of createShmFile(), in the directory or as a memfd.
Result<Fd> openShmMemory(const std::string& path);
// The size of an open file, in bytes.
Result<uint64_t> shmFileBytes(int fd, const std::string& path);
// createBell(): a new FIFO. openBell(): an existing FIFO of this user; it never blocks, and never raises SIGPIPE.
Result<OwnedName> createBell(const std::string& path);
Result<Fd> openBell(const std::string& path);

// The free bytes of a folder's file system. Nothing if unknown or unlimited.
std::optional<uint64_t> freeBytes(const std::string& folder);

// Whether the process that made the presence file behind `fd` is gone. `fd` was opened by openShmFile().
bool ownerIsGone(int presence_fd);

// Removes files of this user in `directory` whose owner is gone; returns their number.
int removeOrphans(const std::string& directory);

}  // namespace horing
