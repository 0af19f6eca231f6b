#pragma once
// From chunk numbers to elements of the caller's buffers. A value, made per call in constant time.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "schedule/schedule.h"

namespace horing {

// Elements [offset, offset + count) of a buffer.
struct ElementRange {
  size_t offset = 0;
  size_t count = 0;
};

// Where a chunk lies in the input and in the output of one rank.
//
// all-reduce: both buffers hold the whole vector, cut into equal chunks (the last ones may be shorter, or
// empty). all-gather: the output holds one block per rank in rank order, the input this rank's block.
// reduce-scatter: the input holds one block per rank in rank order, the output this rank's block.
class Layout {
 public:
  // `count`: elements of the whole vector for all-reduce, of one rank's block for the others.
  // `rank_of_position` maps chunk numbers to blocks and must outlive the layout. `alignment`: elements that
  // chunks of an all-reduce start at a multiple of.
  static Layout make(const Schedule& schedule, size_t count, const int32_t* rank_of_position,
                     size_t alignment) {
    Layout layout;
    layout.collective_ = schedule.collective;
    layout.rank_of_position_ = rank_of_position;
    layout.total_ = count;
    layout.chunk_ = count;
    if (schedule.collective == Collective::kAllReduce) {
      const size_t chunks = static_cast<size_t>(schedule.grid.chunks());
      // Not (count + chunks - 1): counts near the top of size_t must not wrap.
      const size_t even = count / chunks + (count % chunks != 0);
      layout.chunk_ = even + (alignment - even % alignment) % alignment;
    }
    return layout;
  }

  size_t largestChunk() const { return std::min(chunk_, total_); }

  // Elements of the chunk, the same on every rank.
  size_t count(int32_t chunk) const {
    if (collective_ != Collective::kAllReduce) return chunk_;
    const size_t begin = std::min(static_cast<size_t>(chunk) * chunk_, total_);
    return std::min(chunk_, total_ - begin);
  }
  size_t inputOffset(int32_t chunk) const {
    return collective_ == Collective::kAllGather ? 0 : offset(chunk);
  }
  size_t outputOffset(int32_t chunk) const {
    return collective_ == Collective::kReduceScatter ? 0 : offset(chunk);
  }

 private:
  size_t offset(int32_t chunk) const {
    if (collective_ == Collective::kAllReduce) return std::min(static_cast<size_t>(chunk) * chunk_, total_);
    return static_cast<size_t>(rank_of_position_[chunk]) * chunk_;
  }

  Collective collective_ = Collective::kAllReduce;
  const int32_t* rank_of_position_ = nullptr;
  size_t total_ = 0;
  size_t chunk_ = 0;
};

// The pipeline's cut of every chunk: slice s is elements [s * slice_elements, (s + 1) * slice_elements) of
// it, cut off at the chunk's end. Slices beyond that do not exist and are skipped at both ends of a
// connection.
struct Slicing {
  size_t slice_elements = 1;
  int64_t slices = 0;  // of the largest chunk

  // Aims at `kSlicesWanted` slices per chunk, so that hops overlap, between `kSmallestSlice` bytes and a
  // slot.
  static constexpr size_t kSlicesWanted = 8;
  static constexpr size_t kSmallestSlice = 4096;

  static Slicing choose(size_t largest_chunk, size_t element_bytes, size_t slot_bytes) {
    Slicing slicing;
    const size_t most = slot_bytes / element_bytes;
    const size_t least = std::min(most, kSmallestSlice / element_bytes);
    const size_t wanted = largest_chunk / kSlicesWanted + 1;
    const size_t aligned = wanted + (64 - wanted % 64) % 64;
    slicing.slice_elements = std::clamp(aligned, least, most);
    slicing.slices = static_cast<int64_t>(largest_chunk / slicing.slice_elements +
                                          (largest_chunk % slicing.slice_elements != 0));
    return slicing;
  }

  // Elements of slice s of a chunk of `chunk_count` elements, relative to the chunk.
  ElementRange range(size_t chunk_count, int64_t slice) const {
    const size_t begin = std::min(static_cast<size_t>(slice) * slice_elements, chunk_count);
    return {begin, std::min(slice_elements, chunk_count - begin)};
  }
};

}  // namespace horing
