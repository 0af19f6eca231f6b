#pragma once
// The post-condition of each collective, as data: the chunks of the input and the output at a position, and the contributions that a chunk
// of the output must hold at the end. The verifier proves schedules against it; it is stated nowhere else.
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "schedule/schedule.h"

namespace horing {

// The chunks of a buffer of one position. kOwn: only the chunk whose number is the position; with rails, the chunks that the position owns.
// kEveryAtRoot: every chunk at the root, none elsewhere. kRow, kColumn: the chunks in the position's row or column of the grid.
enum class ChunkSet : uint8_t { kEvery, kOwn, kEveryAtRoot, kRow, kColumn };

// The contributions in a chunk of the output. kPositionOfChunk: chunk p holds position p's contribution; kRowOfChunk: the contribution of
// the position of its row.
enum class Folded : uint8_t { kAllRanks, kPositionOfChunk, kRowOfChunk, kRoot };

// Whether the caller passes overlapping buffers: all-reduce and (at the root) broadcast and reduce out = in,
// all-gather and (at the root) gather in = out(me), reduce-scatter and (at the root) scatter out = in(me).
enum class InPlace : uint8_t { kNo, kYes };

// At the start every chunk of `in` holds the position's own contribution to that chunk; `out` holds nothing. A chunk that is folded over
// all ranks must be completed (Step::completes) exactly once, by its last fold.
struct Contract {
  ChunkSet in = ChunkSet::kEvery;
  ChunkSet out = ChunkSet::kEvery;
  Folded folded = Folded::kAllRanks;
  bool may_be_in_place = true;
  int32_t root = 0;              // position
  int32_t columns = 1;           // of the grid
  const Rails* rails = nullptr;  // of the schedule, which must outlive this object; null: none

  constexpr bool inputHas(int32_t position, int32_t chunk) const { return has(in, position, chunk); }
  constexpr bool outputHas(int32_t position, int32_t chunk) const { return has(out, position, chunk); }
  // Whether in(chunk) and out(chunk) are the same memory at `position`: in place, wherever both exist.
  constexpr bool aliases(InPlace in_place, int32_t position, int32_t chunk) const {
    return in_place == InPlace::kYes && may_be_in_place && inputHas(position, chunk) &&
           outputHas(position, chunk);
  }
  constexpr bool folds() const { return folded == Folded::kAllRanks; }
  // The position whose contribution the chunk holds at the end; not for chunks folded over all ranks.
  constexpr int32_t sourceOf(int32_t chunk) const {
    return folded == Folded::kRoot ? root : folded == Folded::kRowOfChunk ? chunk / columns : ownerOf(chunk);
  }

 private:
  constexpr int32_t ownerOf(int32_t chunk) const { return rails ? rails->ownerOf(chunk) : chunk; }
  constexpr bool has(ChunkSet set, int32_t position, int32_t chunk) const {
    switch (set) {
      case ChunkSet::kEvery:
        return true;
      case ChunkSet::kOwn:
        return ownerOf(chunk) == position;
      case ChunkSet::kEveryAtRoot:
        return position == root;
      case ChunkSet::kRow:
        return chunk / columns == position;
      case ChunkSet::kColumn:
        return chunk % columns == position;
    }
    return false;
  }
};

constexpr Contract contractOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return {ChunkSet::kEvery, ChunkSet::kEvery, Folded::kAllRanks};
    case Collective::kReduceScatter:
      return {ChunkSet::kEvery, ChunkSet::kOwn, Folded::kAllRanks};
    case Collective::kAllGather:
      return {ChunkSet::kOwn, ChunkSet::kEvery, Folded::kPositionOfChunk};
    case Collective::kBroadcast:
      return {ChunkSet::kEveryAtRoot, ChunkSet::kEvery, Folded::kRoot};
    case Collective::kReduce:
      return {ChunkSet::kEvery, ChunkSet::kEveryAtRoot, Folded::kAllRanks};
    case Collective::kGather:
      return {ChunkSet::kOwn, ChunkSet::kEveryAtRoot, Folded::kPositionOfChunk};
    case Collective::kScatter:
      return {ChunkSet::kEveryAtRoot, ChunkSet::kOwn, Folded::kRoot};
    case Collective::kAllToAll:
      return {ChunkSet::kRow, ChunkSet::kColumn, Folded::kRowOfChunk, false};
  }
  return {};
}

inline Contract contractOf(const Schedule& schedule) {
  Contract contract = contractOf(schedule.collective);
  contract.root = schedule.root;
  contract.columns = schedule.grid.columns;
  if (schedule.rails) contract.rails = &schedule.rails;
  return contract;
}

// Whether schedules may cut the vector freely into any number of chunks; otherwise each rank has a block of it.
constexpr bool isCutAtWill(Collective collective) {
  const Contract contract = contractOf(collective);
  return contract.in != ChunkSet::kRow && contract.in != ChunkSet::kOwn && contract.out != ChunkSet::kOwn;
}

// Chunks of the grid, without rails: any number if the vector is cut freely (0), otherwise one for each rank or pair of ranks.
constexpr int64_t chunksDue(Collective collective, int32_t ranks) {
  if (isCutAtWill(collective)) return 0;
  return contractOf(collective).in == ChunkSet::kRow ? int64_t{ranks} * ranks : ranks;
}

// Blocks of Call::count elements in the whole vector, ...
constexpr size_t blocksOf(Collective collective, int32_t ranks) {
  return isCutAtWill(collective) ? 1 : static_cast<size_t>(ranks);
}

// ... in a buffer that holds `set`.
constexpr size_t blocksIn(ChunkSet set, Collective collective, int32_t ranks) {
  return set == ChunkSet::kOwn ? 1 : blocksOf(collective, ranks);
}

}  // namespace horing
