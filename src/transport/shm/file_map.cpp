#include "transport/shm/file_map.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <compare>
#include <map>
#include <mutex>

namespace horing {
namespace {

// Identifies a file in this process. A forked child has copies of its parent's references, but not the memory.
struct FileKey {
  pid_t process;
  dev_t device;
  ino_t inode;
  auto operator<=>(const FileKey&) const = default;
};

// A mapping keeps its file's inode, so its number is not reused while the entry exists.
std::map<FileKey, std::weak_ptr<const Mapping>>& mappings() {
  static auto* const mappings =
      new std::map<FileKey, std::weak_ptr<const Mapping>>;  // outlives static destructors
  return *mappings;
}

// A fork takes this mutex first: otherwise the child could inherit a lock of a thread that does not exist there.
std::mutex& mappingsMutex() {
  static std::mutex mutex;
  [[maybe_unused]] static const int guarded =
      ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
  return mutex;
}

std::shared_ptr<const Mapping> findMapping(const FileKey& key, uint64_t bytes) {
  const std::lock_guard lock(mappingsMutex());
  const auto found = mappings().find(key);
  std::shared_ptr<const Mapping> map = found == mappings().end() ? nullptr : found->second.lock();
  return map && map->bytes() == bytes ? map : nullptr;
}

// Returns the mapping that another thread has made meanwhile, if any.
std::shared_ptr<const Mapping> keepMapping(const FileKey& key, std::shared_ptr<const Mapping> map) {
  const std::lock_guard lock(mappingsMutex());
  std::erase_if(mappings(), [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const Mapping>& kept = mappings()[key];
  if (std::shared_ptr<const Mapping> first = kept.lock(); first && first->bytes() == map->bytes())
    return first;
  kept = map;
  return map;
}

}  // namespace

Result<ShmMap> mapShmFile(int fd, uint64_t bytes, const std::string& path) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return systemError(errno, "looking at %s", path.c_str());
  const FileKey key{::getpid(), facts.st_dev, facts.st_ino};
  if (std::shared_ptr<const Mapping> map = findMapping(key, bytes)) return ShmMap(std::move(map));

  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return systemError(errno, "mapping %" PRIu64 " bytes of %s", bytes, path.c_str());
  Mapping mapping(data, bytes);
  // A mapping keeps the file open, and so its lock: a forked child must not inherit it.
  ::madvise(data, bytes, MADV_DONTFORK);
  return ShmMap(keepMapping(key, std::make_shared<const Mapping>(std::move(mapping))));
}

}  // namespace horing
