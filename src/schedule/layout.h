#pragma once
// From chunk numbers to elements of the caller's buffers. A value, made per call in constant time. Kernels cut slices, too: constexpr.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/quotient.h"
#include "base/types.h"
#include "schedule/postcondition.h"
#include "schedule/schedule.h"

namespace horing {

// Elements [offset, offset + count) of a buffer.
struct ElementRange {
  size_t offset = 0;
  size_t count = 0;
};

// Blocks of a buffer that differ in size: block r has counts[r] elements, from element offsets[r] on. Borrowed,
// by rank. Null: all blocks have one size and follow each other in rank order.
struct Blocks {
  const size_t* counts = nullptr;
  const size_t* offsets = nullptr;
  constexpr bool given() const { return counts != nullptr; }
  bool operator==(const Blocks&) const = default;
};

// The sizes that the caller of a collective passes.
struct Extent {
  // Elements of the whole vector for all-reduce, broadcast and reduce, otherwise of one block; of this rank's block if blocks differ in
  // size.
  size_t count = 0;
  // If blocks differ in size: all-gather has the output's, reduce-scatter the input's, all-to-all both, gather and scatter the root's only.
  bool uneven = false;
  Blocks input;
  Blocks output;
  // The number of each position's block, where blocks have one size. Borrowed; null: its rank.
  const int32_t* block_of_position = nullptr;
  bool operator==(const Extent&) const = default;
};

// The place of a chunk in the input and in the output of one rank.
//
// If the vector is cut freely, both buffers hold the whole vector, cut into equal chunks (the last ones may be shorter, or empty), or into
// the rows that the schedule's shares give, each cut into equal chunks.
// Otherwise a buffer with every chunk holds one block for each rank, in rank order (or the extent's order), and a buffer with only the
// rank's own chunk holds that block. If groups differ in size, a chunk is a part of a block, or of a row of the vector (rails.h).
// All-to-all: input and output hold one block for each peer.
class Layout {
 public:
  // `rank_of_position` maps chunk numbers to blocks if the extent does not; it and the tables of `extent` must outlive the layout.
  // `alignment`: chunks of a vector that is cut freely start at a multiple of this many elements. The schedule must outlive the layout if
  // it has rails or shares.
  static Layout make(const Schedule& schedule, const Extent& extent, const int32_t* rank_of_position,
                     size_t alignment) {
    Layout layout;
    layout.contract_ = contractOf(schedule);
    layout.is_cut_ = isCutAtWill(schedule.collective);
    layout.position_ = schedule.position;
    layout.block_of_position_ = extent.block_of_position ? extent.block_of_position : rank_of_position;
    layout.extent_ = extent;
    layout.alignment_ = alignment;
    layout.chunks_ = static_cast<size_t>(schedule.grid.chunks());
    layout.chunk_ = extent.count;
    if (schedule.shares) layout.shares_ = &schedule.shares;
    if (layout.is_cut_)
      layout.chunk_ = layout.alignedPart(
          extent.count, layout.rails() ? static_cast<size_t>(schedule.grid.rows) : layout.chunks_);
    return layout;
  }

  // Whether the blocks differ in size. A rank may then know only the sizes of the blocks that it exchanges.
  bool isUneven() const { return extent_.uneven; }

  // Whether groups or their shares differ in size, and so do chunks.
  bool chunksDiffer() const { return rails() || shares_; }
  // Only if the blocks have one size.
  size_t largestChunk() const {
    const size_t whole = std::min(chunk_, extent_.count);
    if (shares_) return largestShare();
    if (!rails()) return whole;
    return is_cut_ ? rails()->largestPartOfRow(whole, alignment_)
                   : rails()->largestPartOfBlock(whole, alignment_);
  }
  // An upper bound of the elements of all chunks together; only if the blocks have one size.
  size_t allChunks() const {
    if (shares_) return extent_.count;
    if (!rails()) return largestChunk() * chunks_;
    return is_cut_ ? extent_.count : extent_.count * static_cast<size_t>(rails()->ranks());
  }

  // The offset of the chunk in the rank's buffers, and its size, in elements.
  struct Place {
    size_t count = 0;
    size_t input = 0;
    size_t output = 0;
  };

  // Elements of the chunk, the same on every rank that handles it.
  size_t count(int32_t chunk) const {
    if (is_cut_) return cutAt(chunk).count;
    if (rails()) {
      const Rails::Part part = partAt(chunk);
      return part.end - part.begin;
    }
    if (extent_.input.given() && contract_.inputHas(position_, chunk))
      return extent_.input.counts[inputBlock(chunk)];
    if (extent_.output.given() && contract_.outputHas(position_, chunk))
      return extent_.output.counts[outputBlock(chunk)];
    return chunk_;
  }
  Place placeOf(int32_t chunk) const {
    return is_cut_ ? cutAt(chunk) : Place{count(chunk), inputOffset(chunk), outputOffset(chunk)};
  }
  size_t inputOffset(int32_t chunk) const {
    if (is_cut_) return cutAt(chunk).input;
    if (rails())
      return partAt(chunk).begin +
             (contract_.in == ChunkSet::kOwn ? 0 : offset(extent_.input, ownBlock(chunk)));
    if (contract_.in == ChunkSet::kOwn) return 0;
    return offset(extent_.input, inputBlock(chunk));
  }
  size_t outputOffset(int32_t chunk) const {
    if (is_cut_) return cutAt(chunk).output;
    if (rails())
      return partAt(chunk).begin +
             (contract_.out == ChunkSet::kOwn ? 0 : offset(extent_.output, ownBlock(chunk)));
    if (contract_.out == ChunkSet::kOwn) return 0;
    return offset(extent_.output, outputBlock(chunk));
  }

 private:
  const Rails* rails() const { return contract_.rails; }
  // The size of the block that contains the chunk.
  size_t ownBlock(int32_t chunk) const { return blockAt(rails()->ownerOf(chunk)); }
  Rails::Part partAt(int32_t chunk) const {
    const Blocks& blocks = extent_.input.given() ? extent_.input : extent_.output;
    return rails()->partOfBlock(chunk, blocks.given() ? blocks.counts[ownBlock(chunk)] : chunk_, alignment_);
  }
  // Elements of the largest of `parts` equal parts that begin at multiples of the alignment.
  size_t alignedPart(size_t count, size_t parts) const {
    const size_t even = quotientUp(count, parts);
    return even + (alignment_ - even % alignment_) % alignment_;
  }
  size_t largestShare() const {
    const size_t row = shares_->largestRow(extent_.count, alignment_);
    return rails() ? rails()->largestPartOfRow(row, alignment_)
                   : std::min(row, alignedPart(row, static_cast<size_t>(contract_.columns)));
  }
  Place sharedAt(int32_t chunk) const {
    const int32_t row = chunk / contract_.columns, column = chunk % contract_.columns;
    const size_t begin = shares_->beginOf(row, extent_.count, alignment_);
    const size_t count = shares_->beginOf(row + 1, extent_.count, alignment_) - begin;
    if (rails()) {
      const Rails::Part part = rails()->partOfRow(chunk, count, alignment_);
      return {part.end - part.begin, begin + part.begin, begin + part.begin};
    }
    const size_t even = alignedPart(count, static_cast<size_t>(contract_.columns));
    const size_t before = std::min(static_cast<size_t>(column) * even, count);
    return {std::min(even, count - before), begin + before, begin + before};
  }
  Place cutAt(int32_t chunk) const {
    if (shares_) return sharedAt(chunk);
    if (rails()) {
      const size_t row = std::min(static_cast<size_t>(chunk / rails()->pieces()) * chunk_, extent_.count);
      const Rails::Part part = rails()->partOfRow(chunk, std::min(chunk_, extent_.count - row), alignment_);
      return {part.end - part.begin, row + part.begin, row + part.begin};
    }
    const size_t begin = std::min(static_cast<size_t>(chunk) * chunk_, extent_.count);
    return {std::min(chunk_, extent_.count - begin), begin, begin};
  }
  // The number of the block: normally a rank, always if blocks differ in size.
  size_t inputBlock(int32_t chunk) const {
    return blockAt(contract_.in == ChunkSet::kRow ? chunk % contract_.columns : chunk);
  }
  size_t outputBlock(int32_t chunk) const {
    return blockAt(contract_.out == ChunkSet::kColumn ? chunk / contract_.columns : chunk);
  }
  size_t blockAt(int32_t position) const { return static_cast<size_t>(block_of_position_[position]); }
  size_t offset(const Blocks& blocks, size_t block) const {
    return blocks.given() ? blocks.offsets[block] : block * chunk_;
  }

  Contract contract_;
  const Shares* shares_ = nullptr;  // of the schedule; null: none
  bool is_cut_ = true;
  size_t alignment_ = 1;
  size_t chunks_ = 1;
  int32_t position_ = 0;
  const int32_t* block_of_position_ = nullptr;
  Extent extent_;
  size_t chunk_ = 0;  // with rails: a row of the vector, or a block
};

// The pipeline's cut of every chunk: slice s is elements [s * slice_elements, (s + 1) * slice_elements) of it, cut off at the chunk's end.
// Later slices do not exist and are skipped at both ends of a connection.
struct Slicing {
  size_t slice_elements = 1;

  // Slices let hops overlap. But if a rank's later steps depend on its own earlier messages, each window pays the latency of all hops
  // again: so as few windows as slots allow, and these full; in one window at most `kSlicesWanted` slices. In trees, windows follow each
  // other without a wait, and slices are the depth of the pipeline; as they are where rows differ in size (Schedule::windowOf), but not so
  // small that the messages cost more. No slice except the last is below `smallest_slice` bytes.
  static constexpr size_t kSlicesWanted = 8;
  static constexpr size_t kSmallestSlice = 4096;
  static constexpr size_t kSmallestSliceOfShares = 16 << 10;  // of the largest row
  // Where a row has next to nothing, its group gets results nearly as long as it sends, and waits for them at the beginning and at the
  // end: so as many slices as this, unless they were smaller than that.
  static constexpr size_t kMostSlicesWanted = 64;
  static constexpr size_t kSmallestSliceOfMany = 32 << 10;

  static Slicing choose(const Schedule& schedule, size_t largest_chunk, size_t element_bytes,
                        size_t slot_bytes, int32_t window) {
    if (schedule.shares) {
      const size_t most =
          schedule.shares.anyIsSmall()
              ? std::max(largest_chunk * element_bytes / kMostSlicesWanted, kSmallestSliceOfMany)
              : slot_bytes;
      return inSlices(kSlicesWanted, largest_chunk, element_bytes, std::min(most, slot_bytes),
                      kSmallestSliceOfShares);
    }
    return choose(schedule.collective, largest_chunk, element_bytes, slot_bytes, window);
  }
  static Slicing choose(Collective collective, size_t largest_chunk, size_t element_bytes, size_t slot_bytes,
                        int32_t window, size_t smallest_slice = kSmallestSlice) {
    const size_t slots = quotientUp(largest_chunk, slot_bytes / element_bytes);
    return inSlices(slicesWanted(collective, slots, static_cast<size_t>(window)), largest_chunk,
                    element_bytes, slot_bytes, smallest_slice);
  }

  // If blocks differ in size, no rank knows the largest, so a slice is a slot. The size of the block, which both ends of a connection know,
  // gives the number of slices.
  static Slicing fixed(size_t element_bytes, size_t slot_bytes) { return {slot_bytes / element_bytes}; }

  // Of one chunk, where they differ in size: a smaller one has about as many slices as the largest, so that a window moves the same part of
  // every chunk. Otherwise a rank with several small chunks would hold up the others in the first windows, and do nothing in the last ones.
  Slicing ofChunk(const Layout& layout, size_t chunk_count, size_t element_bytes) const {
    if (layout.isUneven() || !layout.chunksDiffer()) return *this;
    const auto slices = static_cast<size_t>(slicesOf(layout.largestChunk()));
    const size_t least = std::min(slice_elements, kSmallestSlice / element_bytes);
    return {
        std::clamp(alignedUp(quotientUp(chunk_count, std::max<size_t>(slices, 1))), least, slice_elements)};
  }

  constexpr int64_t slicesOf(size_t chunk_count) const {
    return static_cast<int64_t>(quotientUp(chunk_count, slice_elements));
  }

  // Elements of slice s of a chunk of `chunk_count` elements, relative to the chunk.
  constexpr ElementRange range(size_t chunk_count, int64_t slice) const {
    const size_t begin = std::min(static_cast<size_t>(slice) * slice_elements, chunk_count);
    return {begin, std::min(slice_elements, chunk_count - begin)};
  }

 private:
  static size_t alignedUp(size_t elements) { return elements + (64 - elements % 64) % 64; }
  static Slicing inSlices(size_t wanted, size_t largest_chunk, size_t element_bytes, size_t slot_bytes,
                          size_t smallest_slice) {
    const size_t most = slot_bytes / element_bytes;
    const size_t least = std::min(most, smallest_slice / element_bytes);
    return {std::clamp(alignedUp(quotientUp(largest_chunk, wanted)), least, most)};
  }
  static size_t slicesWanted(Collective collective, size_t slots, size_t window) {
    if (collective == Collective::kBroadcast || collective == Collective::kReduce) return kSlicesWanted;
    return slots > window ? quotientUp(slots, window) * window
                          : std::max(slots, std::min(window, kSlicesWanted));
  }
};

}  // namespace horing
