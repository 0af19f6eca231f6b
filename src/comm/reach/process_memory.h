#pragma once
// Memory of other processes of this node, read through the kernel (process_vm_readv): one copy, of memory that nobody shared.
//
// Not every system allows it (other users, Yama's ptrace_scope, containers with PID namespaces of their own, in which a number may
// even name another process). So each rank shows where in its process a random number lies, and who can read that there
// reads the right process.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/host/operation.h"
#include "topology/group_map.h"

namespace horing {

struct MemoryProof {
  uint64_t address = 0;
  uint64_t number = 0;
};

class ProcessMemory final : public PeerReader {
 public:
  // `map` must outlive it. `processes`: of each rank, by its number.
  ProcessMemory(const GroupMap& map, std::vector<int64_t> processes);
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  int64_t processOf(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  // Of this process; as long as this object lives.
  MemoryProof proof() const { return {reinterpret_cast<uintptr_t>(&number_), number_}; }
  // Whether others may read that memory of this process: not every mapping can be (those of devices).
  static bool canBeRead(std::span<const std::byte> memory);
  // Whether this process can read that rank's.
  bool reaches(int rank, const MemoryProof& proof) const;
  // kRemoteError: the peer has gone or what it named is no memory of its. kSystemError: the kernel refuses.
  Status read(int32_t position, std::byte* to, const std::byte* from, size_t bytes) override;

 private:
  const GroupMap& map_;
  std::vector<int64_t> processes_;
  uint64_t number_ = 0;
};

}  // namespace horing
