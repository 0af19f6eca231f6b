#pragma once
// What each collective promises, as data: which chunks the input and the output have at a position, and whose
// contributions a chunk of the output must hold at the end. The verifier proves schedules against this;
// nothing else states it.
#include <cstdint>

#include "base/types.h"

namespace horing {

// Chunks that a buffer of one position consists of. kOwn: only the chunk whose number is the position.
enum class ChunkSet : uint8_t { kEvery, kOwn };

// Whose contributions are folded into a chunk of the output. kPositionOfChunk: chunk p holds what position p
// had.
enum class Folded : uint8_t { kAllRanks, kPositionOfChunk };

// At the start every chunk of `in` holds the position's own contribution to that chunk; `out` holds nothing. What is folded
// over all ranks must have been completed (Step::completes) exactly once, where it was.
struct Contract {
  ChunkSet in;
  ChunkSet out;
  Folded folded;
};

constexpr Contract contractOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return {ChunkSet::kEvery, ChunkSet::kEvery, Folded::kAllRanks};
    case Collective::kReduceScatter:
      return {ChunkSet::kEvery, ChunkSet::kOwn, Folded::kAllRanks};
    case Collective::kAllGather:
      return {ChunkSet::kOwn, ChunkSet::kEvery, Folded::kPositionOfChunk};
  }
  return {ChunkSet::kEvery, ChunkSet::kEvery, Folded::kAllRanks};
}

constexpr bool contains(ChunkSet set, int32_t position, int32_t chunk) {
  return set == ChunkSet::kEvery || chunk == position;
}

// Whether the caller passes overlapping buffers: all-reduce out = in, all-gather in = out(me), reduce-scatter
// out = in(me).
enum class InPlace : uint8_t { kNo, kYes };

// Whether in(chunk) and out(chunk) are the same memory at `position`: in place, wherever both exist.
constexpr bool aliased(const Contract& contract, InPlace in_place, int32_t position, int32_t chunk) {
  return in_place == InPlace::kYes && contains(contract.in, position, chunk) &&
         contains(contract.out, position, chunk);
}

}  // namespace horing
