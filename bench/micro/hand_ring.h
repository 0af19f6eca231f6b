#pragma once
// A ring written by hand over the same connections, slices and kernels as the interpreter, with which interpreter_bench compares it. It has
// no schedule, plan, tag or check, only two resumable loops (reduce-scatter, all-gather).
//
// Like every ring over a bounded number of slots it sends slices in windows: if it sent all slices of a chunk first, every rank would fill
// its slots to the next rank and wait for ever.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "engine/host/fold.h"
#include "engine/host/operation.h"
#include "schedule/layout.h"
#include "transport/transport.h"

namespace horing {

// The connections of one rank: each half of an all-reduce has its own, so that neither waits for the other.
struct RingConnections {
  Sender* reduce_next = nullptr;
  Receiver* reduce_previous = nullptr;
  Sender* gather_next = nullptr;
  Receiver* gather_previous = nullptr;
};

struct HandRingSettings {
  Collective collective = Collective::kAllReduce;
  int32_t ranks = 2;
  int32_t rank = 0;
  int32_t block_slices = 4;
  uint32_t slot_bytes = 65536;
  Simd simd = Simd::kPlain;
};

// float32, sum; position = rank. One thread; the connections must outlive it.
class HandRing {
 public:
  HandRing(const HandRingSettings& settings, const int32_t* rank_of_position,
           const RingConnections& connections)
      : settings_(settings), rank_of_position_(rank_of_position), connections_(connections) {
    shape_.collective = settings.collective;
    shape_.grid = {1, settings.ranks};
    fold_ = foldFunction(DataType::kFloat32, RedOp::kSum, settings.simd);
  }

  void begin(const Call& call, uint64_t) {
    call_ = call;
    layout_ = Layout::make(shape_, call.extent(), rank_of_position_, 64 / sizeof(float));
    slicing_ = Slicing::choose(settings_.collective, layout_.largestChunk(), sizeof(float),
                               settings_.slot_bytes, settings_.block_slices);
    slices_ = slicing_.slicesOf(layout_.largestChunk());
    reduced_slices_ = 0;
    start(reduce_, settings_.collective != Collective::kAllGather, behind(1));
    start(gather_, settings_.collective != Collective::kReduceScatter, behind(0));
  }
  // Does what can be done now, a block of each half at most. True if anything was.
  bool poll() {
    bool progressed = false;
    for (int i = 0; i < settings_.block_slices && !reduce_.done && reduceSlice(); ++i) {
      advance(reduce_, 1);
      progressed = true;
    }
    for (int i = 0; i < settings_.block_slices && !gather_.done && gatherSlice(); ++i) {
      advance(gather_, 0);
      progressed = true;
    }
    return progressed;
  }
  bool done() const {
    return reduce_.done && gather_.done && connections_.reduce_next->flushed() &&
           connections_.reduce_previous->flushed() && connections_.gather_next->flushed() &&
           connections_.gather_previous->flushed();
  }

 private:
  // Where one of the two loops is: for each block, for each hop, for each slice of the block.
  struct Loop {
    int64_t block_begin = 0, block_end = 0, slice = 0;
    int32_t hop = 0;
    bool done = true;
    // Of the chunk of this hop:
    size_t count = 0;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  int32_t behind(int32_t hops) const {
    const int32_t chunk = settings_.rank - hops;
    return chunk < 0 ? chunk + settings_.ranks : chunk;
  }

  void start(Loop& loop, bool wanted, int32_t chunk) {
    loop = {};
    loop.block_end = std::min<int64_t>(settings_.block_slices, slices_);
    loop.done = !wanted || slices_ == 0;
    enter(loop, chunk);
  }
  void enter(Loop& loop, int32_t chunk) {
    loop.count = layout_.count(chunk);
    loop.input = call_.input + layout_.inputOffset(chunk) * sizeof(float);
    loop.output = call_.output + layout_.outputOffset(chunk) * sizeof(float);
    loop.slice = loop.block_begin;
  }
  // `first_behind`: the loop's first hop handles the chunk of the rank that far behind.
  void advance(Loop& loop, int32_t first_behind) {
    if (++loop.slice < loop.block_end) return;
    if (++loop.hop == settings_.ranks) {
      loop.hop = 0;
      loop.block_begin = loop.block_end;
      loop.block_end = std::min<int64_t>(loop.block_begin + settings_.block_slices, slices_);
      loop.done = loop.block_begin == loop.block_end;
    }
    const int32_t hops = loop.hop + first_behind;
    enter(loop, behind(hops == settings_.ranks ? 0 : hops));
  }

  bool reduceSlice() {
    const ElementRange range = slicing_.range(reduce_.count, reduce_.slice);
    const bool first = reduce_.hop == 0, last = reduce_.hop == settings_.ranks - 1;
    const size_t bytes = range.count * sizeof(float), offset = range.offset * sizeof(float);
    if (bytes != 0) {
      const Message* message = first ? nullptr : connections_.reduce_previous->tryPeek();
      if (!first && !message) return false;
      std::byte* to = last ? reduce_.output + offset : connections_.reduce_next->tryAcquire(kWholeSlot);
      if (!to) return false;
      if (first)
        copyBytes(reduce_.input + offset, to, nullptr, bytes);
      else
        fold(message->data, reduce_.input + offset, to, range.count);
      if (!last) connections_.reduce_next->post(static_cast<uint32_t>(bytes), 0);
      if (!first) connections_.reduce_previous->release();
    }
    if (last) reduced_slices_ = reduce_.slice + 1;
    return true;
  }

  bool gatherSlice() {
    const ElementRange range = slicing_.range(gather_.count, gather_.slice);
    const bool first = gather_.hop == 0, last = gather_.hop == settings_.ranks - 1;
    const size_t bytes = range.count * sizeof(float), offset = range.offset * sizeof(float);
    if (bytes == 0) return true;
    const bool reduces = settings_.collective == Collective::kAllReduce;
    if (first && reduces && gather_.slice >= reduced_slices_) return false;
    const Message* message = first ? nullptr : connections_.gather_previous->tryPeek();
    if (!first && !message) return false;
    std::byte* next = last ? nullptr : connections_.gather_next->tryAcquire(kWholeSlot);
    if (!last && !next) return false;
    std::byte* out = gather_.output + offset;
    if (first && reduces)
      copyBytes(out, next, nullptr, bytes);
    else
      copyBytes(first ? gather_.input + offset : message->data, out, next, bytes);
    if (!last) connections_.gather_next->post(static_cast<uint32_t>(bytes), 0);
    if (!first) connections_.gather_previous->release();
    return true;
  }

  void fold(const std::byte* received, const std::byte* mine, std::byte* to, size_t count) {
    const std::byte* sources[] = {received, mine};
    FoldArguments arguments;
    arguments.sources = sources;
    arguments.source_count = 2;
    arguments.destinations = &to;
    arguments.destination_count = 1;
    arguments.count = count;
    arguments.ranks = settings_.ranks;
    fold_(arguments);
  }

  HandRingSettings settings_;
  const int32_t* rank_of_position_;
  RingConnections connections_;
  Schedule shape_;  // collective and grid, for the layout
  FoldFunction fold_ = nullptr;
  Call call_;
  Layout layout_;
  Slicing slicing_;
  int64_t slices_ = 0;
  Loop reduce_, gather_;
  int64_t reduced_slices_ = 0;  // of my chunk, ready to be gathered
};

}  // namespace horing
