#include "comm/reach/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

namespace {

// Returns 0 or errno. A large read may end early, before a page that cannot be read.
int readFrom(pid_t process, void* to, const void* from, size_t bytes) {
  auto* into = static_cast<std::byte*>(to);
  auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const iovec local{into, bytes}, remote{const_cast<std::byte*>(at), bytes};
    const ssize_t got = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EFAULT;
    into += got;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace

ProcessMemory::ProcessMemory(const GroupMap& map, std::vector<int64_t> processes)
    : map_(map), processes_(std::move(processes)) {
  while (number_ == 0) randomBytes(std::as_writable_bytes(std::span(&number_, 1)));
}

// Both ends: the memory between them is one allocation.
bool ProcessMemory::canBeRead(std::span<const std::byte> memory) {
  if (memory.empty()) return true;
  std::array<std::byte, 2> ends;
  const iovec local{ends.data(), ends.size()};
  const iovec remote[] = {{const_cast<std::byte*>(&memory.front()), 1},
                          {const_cast<std::byte*>(&memory.back()), 1}};
  return ::process_vm_readv(::getpid(), &local, 1, remote, std::size(remote), 0) ==
         static_cast<ssize_t>(ends.size());
}

bool ProcessMemory::reaches(int rank, const MemoryProof& proof) const {
  uint64_t found = 0;
  return proof.number != 0 &&
         readFrom(static_cast<pid_t>(processes_[static_cast<size_t>(rank)]), &found,
                  reinterpret_cast<const void*>(proof.address), sizeof found) == 0 &&
         found == proof.number;
}

Status ProcessMemory::read(int32_t position, std::byte* to, const std::byte* from, size_t bytes) {
  const int rank = map_.rankOfPosition(position);
  const auto process = static_cast<pid_t>(processes_[static_cast<size_t>(rank)]);
  const int error = readFrom(process, to, from, bytes);
  if (error == 0) return {};
  if (error == ESRCH)
    return makeStatus(Code::kRemoteError, "rank %d (process %d) ended while its input was read", rank,
                      process);
  if (error == EFAULT)
    return makeStatus(
        Code::kRemoteError,
        "the input of rank %d (process %d), or this rank's output, is not entirely mapped memory: was "
        "one freed, or is one shorter than its count says?",
        rank, process);
  return systemError(
      error,
      "cannot read memory of rank %d (process %d) any more: did a process change its user or its "
      "capabilities after the communicator was made?",
      rank, process);
}

}  // namespace horing
