#pragma once
// Memory of other processes of this node, read through the kernel (process_vm_readv): a single copy, without shared memory.
//
// Not every system allows it (other users, Yama's ptrace_scope, containers with their own PID namespaces, in which a PID may name another
// process). So each rank publishes the address of a random number: a peer that reads this number there reads the right process.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rights.h"
#include "engine/host/operation.h"
#include "topology/group_map.h"

namespace horing {

struct MemoryProof {
  uint64_t address = 0;
  uint64_t number = 0;
};

class ProcessMemory final : public PeerReader {
 public:
  // `map` must outlive it. `processes`: the process of each rank.
  ProcessMemory(const GroupMap& map, std::vector<int64_t> processes);
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  int64_t processOf(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  // Whether this process still has the rights that it had when access was tried: otherwise it may have lost access to peers, and peers to
  // it.
  bool hasItsRights() const { return Rights() == rights_; }
  // The proof of this process; valid as long as this object.
  MemoryProof proof() const { return {reinterpret_cast<uintptr_t>(&number_), number_}; }
  // Whether peers may read this memory: not every mapping can be read (device memory).
  static bool canBeRead(std::span<const std::byte> memory);
  // Whether this process can read memory of that rank.
  bool reaches(int rank, const MemoryProof& proof) const;
  // kRemoteError: the peer is gone, or its address is invalid. kSystemError: the kernel refuses.
  Status read(int32_t position, std::byte* to, const std::byte* from, size_t bytes) override;

 private:
  const GroupMap& map_;
  std::vector<int64_t> processes_;
  uint64_t number_ = 0;
  const Rights rights_;
};

}  // namespace horing
