#pragma once
// A list of collectives of one kind, coalesced into few: small entries are packed into a buffer of this rank.
//
// Entries whose whole vector is small are packed, as many at a time as the buffer holds; the other entries run one by one, without a copy.
// All ranks have the same counts, so all make the same decisions.
#include <cstddef>
#include <span>
#include <vector>

#include "comm/calls/command.h"
#include "comm/communicator.h"

namespace horing {

// One thread at a time; the communicator must outlive it.
class CoalescedLists {
 public:
  // Vectors up to this size are packed: for larger ones, two copies cost more than a call.
  static constexpr size_t kMostPackedBytes = 256 << 10;
  static constexpr size_t kBufferBytes = 4 << 20;

  explicit CoalescedLists(Communicator& communicator) : communicator_(communicator) {}

  // All-reduce, reduce-scatter or all-gather of each entry. Returns the first error of Communicator::run().
  Status run(const ListCommand& list);
  uint64_t memoryBytes() const { return buffer_.capacity(); }

 private:
  struct Batch;
  Status runOne(Call call, const ListEntry& entry);
  Status runPacked(const Batch& batch, Call call);

  Communicator& communicator_;
  std::vector<std::byte> buffer_;
};

}  // namespace horing
