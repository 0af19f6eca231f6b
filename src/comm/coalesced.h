#pragma once
// A list of collectives of one kind as few of them: what is small travels together, through a buffer of this rank.
//
// The entries whose whole vector is small are packed, as many at a time as the buffer holds; the others are carried out one by
// one, without a copy. All ranks have the same counts, so all do the same.
#include <cstddef>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace horing {

// One call of the list; buffers and count as in Call.
struct ListEntry {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t count = 0;
};

// One thread at a time; the communicator must outlive it.
class CoalescedLists {
 public:
  // Whole vectors up to this size are packed: beyond, two copies cost more than a call.
  static constexpr size_t kMostPackedBytes = 256 << 10;
  static constexpr size_t kBufferBytes = 4 << 20;

  explicit CoalescedLists(Communicator& communicator) : communicator_(communicator) {}

  // All-reduce, reduce-scatter or all-gather of each entry; `like` has all that they share. Errors as Communicator::run(), the first.
  Status run(Collective collective, const Call& like, std::span<const ListEntry> entries);
  uint64_t memoryBytes() const { return buffer_.capacity(); }

 private:
  struct Batch;
  Status runOne(Collective collective, Call call, const ListEntry& entry);
  Status runPacked(const Batch& batch, Call call);

  Communicator& communicator_;
  std::vector<std::byte> buffer_;
};

}  // namespace horing
