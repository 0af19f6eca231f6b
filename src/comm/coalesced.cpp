#include "comm/coalesced.h"

#include <algorithm>
#include <cstring>

#include "schedule/postcondition.h"

namespace horing {

// Entries that are packed into one call. The buffer holds, for each block of the collective, that block of every entry.
struct CoalescedLists::Batch {
  Collective collective;
  size_t blocks;  // in a whole vector
  size_t own;     // the index of this rank's block
  size_t element_bytes;
  std::vector<const ListEntry*> entries;
  size_t count = 0;  // elements of one block of all entries

  bool inputIsOwn() const { return contractOf(collective).in == ChunkSet::kOwn; }
  bool outputIsOwn() const { return contractOf(collective).out == ChunkSet::kOwn; }

  // visit(entry, place in the buffer, offset in the entry's buffer, bytes) for this block of every entry.
  template <typename Visit>
  void forEach(std::byte* buffer, size_t block, bool is_only_block, const Visit& visit) const {
    std::byte* at = buffer + block * count * element_bytes;
    for (const ListEntry* entry : entries) {
      const size_t bytes = entry->count * element_bytes;
      visit(*entry, at, is_only_block ? 0 : block * bytes, bytes);
      at += bytes;
    }
  }
  void pack(std::byte* buffer) const {
    for (size_t block = 0; block < blocks; ++block)
      if (!inputIsOwn() || block == own)
        forEach(buffer, block, inputIsOwn(),
                [](const ListEntry& entry, std::byte* at, size_t offset, size_t bytes) {
                  std::memcpy(at, entry.input + offset, bytes);
                });
  }
  void unpack(std::byte* buffer) const {
    for (size_t block = 0; block < blocks; ++block)
      if (!outputIsOwn() || block == own)
        forEach(buffer, block, outputIsOwn(),
                [](const ListEntry& entry, const std::byte* at, size_t offset, size_t bytes) {
                  std::memcpy(entry.output + offset, at, bytes);
                });
  }
  // A digest of the entries' counts, by which ranks notice that their lists differ; never 0.
  uint64_t digest() const {
    uint64_t digest = entries.size();
    for (const ListEntry* entry : entries)
      digest = (digest ^ entry->count) * 0x9e3779b97f4a7c15 + (digest >> 29);
    return digest | 1;
  }
};

Status CoalescedLists::run(const ListCommand& list) {
  const auto& [like, entries] = list;
  const Collective collective = like.collective;
  const size_t element_bytes = dataTypeBytes(like.type);
  const size_t blocks = blocksOf(collective, communicator_.membership().ranks());
  const size_t own = isCutAtWill(collective) ? 0 : static_cast<size_t>(communicator_.membership().rank());
  const Batch empty{collective, blocks, own, element_bytes, {}};
  Batch batch = empty;
  if (std::all_of(entries.begin(), entries.end(), [](const ListEntry& entry) { return entry.count == 0; })) {
    // This list moves nothing, but the lists of other ranks may: the call tells them that this list differs.
    for (const ListEntry& entry : entries) batch.entries.push_back(&entry);
    Call call = like;
    call.list = batch.digest();
    return communicator_.run(call);
  }
  for (const ListEntry& entry : entries) {
    const size_t elements = entry.count * blocks;
    if (elements * element_bytes > kMostPackedBytes) {
      HORING_TRY(runOne(like, entry));
      continue;
    }
    if ((batch.count * blocks + elements) * element_bytes > kBufferBytes) {
      HORING_TRY(runPacked(batch, like));
      batch = empty;
    }
    if (entry.count == 0) continue;
    batch.entries.push_back(&entry);
    batch.count += entry.count;
  }
  return runPacked(batch, like);
}

Status CoalescedLists::runOne(Call call, const ListEntry& entry) {
  call.input = entry.input;
  call.output = entry.output;
  call.count = entry.count;
  return communicator_.run(call);
}

Status CoalescedLists::runPacked(const Batch& batch, Call call) {
  if (batch.entries.empty()) return {};
  if (batch.entries.size() == 1) return runOne(call, *batch.entries[0]);
  const size_t block_bytes = batch.count * batch.element_bytes;
  if (buffer_.size() < batch.blocks * block_bytes) buffer_.resize(batch.blocks * block_bytes);
  batch.pack(buffer_.data());
  // In place.
  std::byte* const own = buffer_.data() + batch.own * block_bytes;
  call.input = batch.inputIsOwn() ? own : buffer_.data();
  call.output = batch.outputIsOwn() ? own : buffer_.data();
  call.count = batch.count;
  call.list = batch.digest();
  HORING_TRY(communicator_.run(call));
  batch.unpack(buffer_.data());
  return {};
}

}  // namespace horing
