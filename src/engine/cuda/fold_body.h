#pragma once
// The one body that moves data: folds the operands of a slice and stores the result to one place or several, by all threads of a
// block, or of a crew, together.
//
// Aligned data moves in packs of 16 bytes, several of them in flight for each thread: while the packs of one operand are folded, the packs
// of the next are being loaded. A warp's threads take adjacent packs. Unaligned data, and the few elements after the last pack, move one by
// one.
#include "engine/cuda/fold_rules.h"

namespace horing::cuda {

// The same for all threads that take part.
struct FoldWork {
  const std::byte* const* sources = nullptr;
  const uint8_t* is_input = nullptr;  // one per source
  int32_t source_count = 0;           // 1 or more
  // Each may equal a source, but not overlap one partially.
  std::byte* const* destinations = nullptr;
  int32_t destination_count = 0;  // 1 or more
  size_t count = 0;               // elements
  uint32_t thread = 0;
  uint32_t threads = 1;
};

HORING_DEVICE inline bool isPacked(const FoldWork& work) {
  uintptr_t any = 0;
  HORING_ROLLED
  for (int32_t d = 0; d < work.destination_count; ++d)
    any |= reinterpret_cast<uintptr_t>(work.destinations[d]);
  HORING_ROLLED
  for (int32_t s = 0; s < work.source_count; ++s) any |= reinterpret_cast<uintptr_t>(work.sources[s]);
  return any % sizeof(Pack) == 0;
}

template <class Stored>
HORING_DEVICE inline Stored loadElement(const std::byte* from, size_t at) {
  return reinterpret_cast<const Stored*>(inGlobal(from))[at];
}
template <class Stored>
HORING_DEVICE inline void storeElement(const FoldWork& work, size_t at, Stored value) {
  HORING_ROLLED
  for (int32_t d = 0; d < work.destination_count; ++d)
    reinterpret_cast<Stored*>(inGlobal(work.destinations[d]))[at] = value;
}

// One thread's share of a tile: packs at, at + threads, ...
template <int kPacks>
struct Tile {
  Pack packs[kPacks];

  HORING_DEVICE void load(const std::byte* from, size_t at, uint32_t stride) {
    HORING_UNROLL
    for (int p = 0; p < kPacks; ++p)
      packs[p] = loadPack(from + (at + static_cast<size_t>(p) * stride) * sizeof(Pack));
  }
  HORING_DEVICE void store(std::byte* to, size_t at, uint32_t stride) const {
    HORING_UNROLL
    for (int p = 0; p < kPacks; ++p)
      storePack(to + (at + static_cast<size_t>(p) * stride) * sizeof(Pack), packs[p]);
  }
};

// Calls tile(at, kPacks) until the block has covered packs [begin, packs); the remainder uses tiles of half as many packs, down to one: a
// slice is often shorter than the largest tile, and its packs should be in flight together, too.
template <int kPacks, class Function>
HORING_DEVICE inline void overPacks(const FoldWork& work, size_t packs, const Function& tile,
                                    size_t begin = 0) {
  const size_t tile_packs = static_cast<size_t>(work.threads) * kPacks;
  if constexpr (kPacks > 1) {
    HORING_ROLLED
    for (; begin + tile_packs <= packs; begin += tile_packs)
      tile(begin + work.thread, std::integral_constant<int, kPacks>());
    overPacks<kPacks / 2>(work, packs, tile, begin);
  } else {
    HORING_ROLLED
    for (begin += work.thread; begin < packs; begin += tile_packs)
      tile(begin, std::integral_constant<int, 1>());
  }
}

template <class R>
struct Fold {
  using Stored = typename R::Stored;
  using Value = typename R::Value;
  static constexpr int kInPack = static_cast<int>(sizeof(Pack) / sizeof(Stored));
  // More elements per pack need more registers.
  static constexpr int kPacks = kInPack == 16 ? 2 : 4;

  // The first operand becomes the value, every other is folded into it.
  template <bool kFirst, int kCount>
  HORING_DEVICE static void foldIn(const R& rule, const Tile<kCount>& tile, bool is_input,
                                   Value (&value)[kCount][kInPack]) {
    HORING_UNROLL
    for (int p = 0; p < kCount; ++p) {
      Stored stored[kInPack];
      memcpy(stored, &tile.packs[p], sizeof stored);
      HORING_UNROLL
      for (int e = 0; e < kInPack; ++e) {
        const Value operand = rule.readSource(stored[e], is_input);
        if constexpr (kFirst) {
          value[p][e] = operand;
        } else {
          value[p][e] = R::apply(value[p][e], operand);
        }
      }
    }
  }

  template <int kCount>
  HORING_DEVICE static void foldTile(const R& rule, const FoldWork& work, size_t at) {
    const int32_t last = work.source_count - 1;
    Value value[kCount][kInPack];
    Tile<kCount> tile, next;
    tile.load(work.sources[0], at, work.threads);
    next.load(work.sources[last > 0 ? 1 : 0], at, work.threads);
    foldIn<true>(rule, tile, work.is_input[0] != 0, value);
    HORING_ROLLED
    for (int32_t s = 1; s <= last; ++s) {
      tile = next;
      if (s < last) next.load(work.sources[s + 1], at, work.threads);
      foldIn<false>(rule, tile, work.is_input[s] != 0, value);
    }
    HORING_UNROLL
    for (int p = 0; p < kCount; ++p) {
      Stored stored[kInPack];
      HORING_UNROLL
      for (int e = 0; e < kInPack; ++e) stored[e] = rule.write(value[p][e]);
      memcpy(&tile.packs[p], stored, sizeof stored);
    }
    HORING_ROLLED
    for (int32_t d = 0; d < work.destination_count; ++d) tile.store(work.destinations[d], at, work.threads);
  }

  HORING_DEVICE static void foldElement(const R& rule, const FoldWork& work, size_t at) {
    Value value = rule.readSource(loadElement<Stored>(work.sources[0], at), work.is_input[0] != 0);
    HORING_ROLLED
    for (int32_t s = 1; s < work.source_count; ++s)
      value =
          R::apply(value, rule.readSource(loadElement<Stored>(work.sources[s], at), work.is_input[s] != 0));
    storeElement<Stored>(work, at, rule.write(value));
  }

  template <int kMostPacks = kPacks>
  HORING_DEVICE static void run(const R& rule, const FoldWork& work) {
    const size_t packs = isPacked(work) ? work.count / kInPack : 0;
    overPacks<kMostPacks>(work, packs, [&](size_t at, auto count) { foldTile<count.value>(rule, work, at); });
    HORING_ROLLED
    for (size_t at = packs * kInPack + work.thread; at < work.count; at += work.threads)
      foldElement(rule, work, at);
  }
};

// One source, nothing to fold: copies its bits to the destinations. `Stored`: as wide as an element.
template <class Stored>
HORING_DEVICE inline void moveSlice(const FoldWork& work) {
  constexpr size_t kInPack = sizeof(Pack) / sizeof(Stored);
  const size_t packs = isPacked(work) ? work.count / kInPack : 0;
  const std::byte* const source = work.sources[0];
  overPacks<8>(work, packs, [&](size_t at, auto count) {
    Tile<count.value> tile;
    tile.load(source, at, work.threads);
    HORING_ROLLED
    for (int32_t d = 0; d < work.destination_count; ++d)
      if (work.destinations[d] != source) tile.store(work.destinations[d], at, work.threads);
  });
  HORING_ROLLED
  for (size_t at = packs * kInPack + work.thread; at < work.count; at += work.threads)
    storeElement<Stored>(work, at, loadElement<Stored>(source, at));
}

// Copies raw bytes, by all threads of a block. The addresses may stay in shared memory: in registers they would displace packs.
template <class Block>
HORING_DEVICE inline void moveBytes(std::byte* const& to, const std::byte* const& from, size_t bytes,
                                    const Block& block) {
  FoldWork work;
  work.sources = &from;
  work.source_count = 1;
  work.destinations = &to;
  work.destination_count = 1;
  work.count = bytes;
  work.thread = block.thread();
  work.threads = block.threads();
  const auto any = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (any % sizeof(uint32_t) != 0) return moveSlice<uint8_t>(work);
  work.count /= sizeof(uint32_t);
  moveSlice<uint32_t>(work);
}

template <class R>
HORING_DEVICE inline void foldSlice(const FoldScale& scale, const FoldWork& work) {
  const R rule(scale);
  if (work.source_count == 1 && rule.keepsSingle(work.is_input[0] != 0))
    return moveSlice<typename R::Stored>(work);
  Fold<R>::run(rule, work);
}

// The same for one source, in less code.
template <class R>
HORING_DEVICE inline void copySlice(const FoldScale& scale, const FoldWork& work) {
  const R rule(scale);
  if (rule.keepsSingle(work.is_input[0] != 0)) return moveSlice<typename R::Stored>(work);
  Fold<R>::template run<1>(rule, work);
}

}  // namespace horing::cuda
