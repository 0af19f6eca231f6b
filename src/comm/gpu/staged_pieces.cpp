#include "comm/gpu/staged_pieces.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/quotient.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr size_t kAlignment = 64;

// Elements of every block.
struct Range {
  size_t from;
  size_t count;
  // How many a block of `elements` has of them.
  size_t of(size_t elements) const { return std::min(count, elements - std::min(from, elements)); }
};

}  // namespace

// Takes memory of the host from `staging` on, and writes down what is copied there and back.
class StagedPieces::Builder {
 public:
  Builder(const Command& command, StagedPlace place, std::byte* staging)
      : command_(command),
        place_(place),
        contract_(contractOf(command.collective)),
        element_bytes_(dataTypeBytes(command.call.type)),
        begin_(cudaAddress(staging)),
        next_(begin_) {
    piece_.command.collective = command.collective;
    piece_.command.call = command.call;
  }

  StagedPiece take() {
    piece_.staged_bytes = next_ - begin_;
    return std::move(piece_);
  }

  void addTransfers() {
    for (Transfer transfer : command_.transfers) {
      const bool has_room = !place_.copier || next_ - begin_ + transfer.bytes <= kPieceBytes;
      if (!transfer.copier && !has_room) transfer.copier = place_.copier;
      if (transfer.copier) {
        piece_.command.transfers.push_back(transfer);
        continue;
      }
      const CudaAddress at = reserve(transfer.bytes);
      if (transfer.direction == Transfer::Direction::kSend) {
        copyIn(at, cudaAddress(transfer.input), transfer.bytes);
        transfer.input = pointer(at);
      } else {
        copyOut(cudaAddress(transfer.output), at, transfer.bytes);
        transfer.output = pointer(at);
      }
      piece_.command.transfers.push_back(transfer);
    }
  }

  // Elements [from, from + count) of each of the blocks of `whole` elements; returns where the host finds and leaves them.
  ListEntry addEven(const ListEntry& buffers, size_t whole, size_t from, size_t count) {
    ListEntry staged{.count = count};
    if (hasInput()) {
      const Rows rows{blocksIn(contract_.in), whole, from, count};
      const CudaAddress at = reserve(rows.blocks * count * element_bytes_);
      forEachRow(rows, [&](size_t theirs, size_t ours, size_t bytes) {
        copyIn(at + ours, cudaAddress(buffers.input) + theirs, bytes);
      });
      staged.input = pointer(at);
    }
    if (hasOutput()) {
      const Rows rows{blocksIn(contract_.out), whole, from, count};
      const CudaAddress at = reserve(rows.blocks * count * element_bytes_);
      forEachRow(rows, [&](size_t theirs, size_t ours, size_t bytes) {
        copyOut(cudaAddress(buffers.output) + theirs, at + ours, bytes);
      });
      staged.output = pointer(at);
    }
    return staged;
  }

  void addEvenCall(size_t from, size_t count) {
    Call& call = piece_.command.call;
    const ListEntry staged = addEven({call.input, call.output, call.count}, call.count, from, count);
    call.input = staged.input;
    call.output = staged.output;
    call.count = staged.count;
  }

  void addListed(const ListEntry& entry, size_t from, size_t count) {
    piece_.command.list.push_back(addEven(entry, entry.count, from, count));
  }

  // Elements [from, from + count) of blocks that differ in size, where they have them, packed one after the other; a buffer without a
  // table is this rank's own block.
  void addUneven(size_t from, size_t count) {
    Call& call = piece_.command.call;
    const auto ranks = static_cast<size_t>(place_.ranks);
    piece_.command.tables.resize(4 * ranks);
    size_t* const tables = piece_.command.tables.data();
    const Range range{from, count};
    call.count = range.of(call.count);
    if (hasInput()) {
      const CudaAddress theirs = cudaAddress(call.input);
      const CudaAddress at = addUnevenBuffer(call.input_blocks, range, tables);
      forEachBlock(call.input_blocks, range, tables, [&](size_t offset, size_t packed, size_t bytes) {
        copyIn(at + packed, theirs + offset, bytes);
      });
      call.input = pointer(at);
      if (call.input_blocks.given()) call.input_blocks = {tables, tables + ranks};
    }
    if (hasOutput()) {
      const CudaAddress theirs = cudaAddress(call.output);
      size_t* const outputs = tables + 2 * ranks;
      const CudaAddress at = addUnevenBuffer(call.output_blocks, range, outputs);
      forEachBlock(call.output_blocks, range, outputs, [&](size_t offset, size_t packed, size_t bytes) {
        copyOut(theirs + offset, at + packed, bytes);
      });
      call.output = pointer(at);
      if (call.output_blocks.given()) call.output_blocks = {outputs, outputs + ranks};
    }
  }

  // Blocks that stay where they are.
  void addUnevenInPlace() {
    Call& call = piece_.command.call;
    call.copier = place_.copier;
    std::vector<size_t>& tables = piece_.command.tables;
    const auto ranks = static_cast<size_t>(place_.ranks);
    tables.reserve(4 * ranks);
    for (Blocks* const blocks : {&call.input_blocks, &call.output_blocks}) {
      if (!blocks->given()) continue;
      const size_t begin = tables.size();
      tables.insert(tables.end(), blocks->counts, blocks->counts + ranks);
      tables.insert(tables.end(), blocks->offsets, blocks->offsets + ranks);
      *blocks = {tables.data() + begin, tables.data() + begin + ranks};
    }
  }

  // The factor of a premulsum that is read when the operation begins. One in pinned memory is read there, as every piece is carried
  // out: a driver copies from host to host before it returns, and the stream may be waiting for this very operation.
  void addScalar() {
    Call& call = piece_.command.call;
    if (!call.factor_at || command_.host_has_factor) return;
    const CudaAddress at = reserve(element_bytes_);
    copyIn(at, cudaAddress(call.factor_at), element_bytes_);
    call.factor_at = pointer(at);
  }

 private:
  struct Rows {
    size_t blocks;
    size_t whole;  // elements of a block
    size_t from;
    size_t count;
  };

  static std::byte* pointer(CudaAddress at) { return reinterpret_cast<std::byte*>(at); }
  bool isRoot() const { return command_.call.root == place_.rank; }
  bool hasInput() const { return contract_.in != ChunkSet::kEveryAtRoot || isRoot(); }
  bool hasOutput() const { return contract_.out != ChunkSet::kEveryAtRoot || isRoot(); }
  size_t blocksIn(ChunkSet set) const { return horing::blocksIn(set, command_.collective, place_.ranks); }

  CudaAddress reserve(size_t bytes) {
    const CudaAddress at = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  void copyIn(CudaAddress to, CudaAddress from, size_t bytes) {
    if (bytes > 0) piece_.in.push_back({to, from, bytes});
  }
  void copyOut(CudaAddress to, CudaAddress from, size_t bytes) {
    if (bytes > 0) piece_.out.push_back({to, from, bytes});
  }

  // visit(offset in the caller's buffer, offset in ours, bytes): whole blocks lie one after the other in both.
  template <typename Visit>
  void forEachRow(const Rows& rows, const Visit& visit) const {
    if (rows.count == rows.whole) return visit(0, 0, rows.blocks * rows.count * element_bytes_);
    for (size_t block = 0; block < rows.blocks; ++block)
      visit((block * rows.whole + rows.from) * element_bytes_, block * rows.count * element_bytes_,
            rows.count * element_bytes_);
  }

  // Fills a table of counts and offsets of packed blocks, and reserves what they take.
  CudaAddress addUnevenBuffer(const Blocks& given, Range range, size_t* table) {
    if (!given.given()) return reserve(piece_.command.call.count * element_bytes_);
    const auto ranks = static_cast<size_t>(place_.ranks);
    size_t elements = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      table[rank] = range.of(given.counts[rank]);
      table[ranks + rank] = elements;
      elements += table[rank];
    }
    return reserve(elements * element_bytes_);
  }
  template <typename Visit>
  void forEachBlock(const Blocks& given, Range range, const size_t* table, const Visit& visit) const {
    if (!given.given())
      return visit(range.from * element_bytes_, 0, piece_.command.call.count * element_bytes_);
    const auto ranks = static_cast<size_t>(place_.ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      visit((given.offsets[rank] + range.from) * element_bytes_, table[ranks + rank] * element_bytes_,
            table[rank] * element_bytes_);
  }

  const Command& command_;
  const StagedPlace place_;
  const Contract contract_;
  const size_t element_bytes_;
  StagedPiece piece_;
  const CudaAddress begin_;
  CudaAddress next_;
};

StagedPieces::StagedPieces(const Command& command, StagedPlace place) : command_(command), place_(place) {
  if (!command.transfers.empty()) {
    cuts_.push_back({});
  } else if (command.call.uneven) {
    const Call& call = command.call;
    const bool is_gather = command.collective == Collective::kAllGather;
    const bool all_know = is_gather || command.collective == Collective::kReduceScatter;
    cutUnevenly(!all_know ? nullptr : is_gather ? call.output_blocks.counts : call.input_blocks.counts);
  } else if (!command.list.empty()) {
    cutList();
  } else {
    cutEvenly({.count = command.call.count});
  }
  for (const Cut& cut : cuts_) {
    const StagedPiece piece = build(cut, nullptr);
    largest_bytes_ = std::max(largest_bytes_, piece.staged_bytes);
    has_copier_ |= horing::hasCopier(piece.command);
  }
}

// Small entries share a piece, where they travel together (comm/coalesced.h).
void StagedPieces::cutList() {
  const size_t bytes_of_one =
      2 * blocksOf(command_.collective, place_.ranks) * dataTypeBytes(command_.call.type);
  Cut batch;
  size_t batch_bytes = 0;
  const auto finish = [&](size_t next) {
    if (batch.last > batch.first) cuts_.push_back(batch);
    batch = {next, next, 0, 0};
    batch_bytes = 0;
  };
  for (size_t i = 0; i < command_.list.size(); ++i) {
    const size_t bytes = command_.list[i].count * bytes_of_one + 2 * kAlignment;
    if (batch_bytes + bytes > kPieceBytes) finish(i);
    if (bytes > kPieceBytes) {
      cutEvenly({i, i + 1, 0, command_.list[i].count});
      finish(i + 1);
      continue;
    }
    batch.last = i + 1;
    batch_bytes += bytes;
  }
  finish(0);
}

// Of a buffer that this rank may not have on both sides: all ranks must cut alike.
void StagedPieces::cutEvenly(Cut whole) {
  const size_t bytes_of_one =
      2 * blocksOf(command_.collective, place_.ranks) * dataTypeBytes(command_.call.type);
  const size_t most = std::max<size_t>(kPieceBytes / bytes_of_one, 1);
  const size_t pieces = std::max<size_t>(quotientUp(whole.count, most), 1);
  const size_t each = quotientUp(whole.count, pieces);
  size_t from = 0;
  do {
    cuts_.push_back({whole.first, whole.last, from, std::min(each, whole.count - from)});
    from += each;
  } while (from < whole.count);
}

// Null: of blocks that this rank does not know.
void StagedPieces::cutUnevenly(const size_t* counts) {
  if (!counts) {
    const Cut all{.count = SIZE_MAX};
    const bool has_room = !place_.copier || build(all, nullptr).staged_bytes <= kPieceBytes;
    return cuts_.push_back(has_room ? all : Cut{.stays = true});
  }
  const std::span<const size_t> blocks(counts, static_cast<size_t>(place_.ranks));
  const size_t longest = *std::max_element(blocks.begin(), blocks.end());
  const size_t room = kPieceBytes / (2 * dataTypeBytes(command_.call.type));
  // The more blocks have come to their end, the longer.
  const auto fits = [&](Range range) {
    size_t left = room;
    for (const size_t block : blocks) {
      if (range.of(block) > left) return false;
      left -= range.of(block);
    }
    return true;
  };
  size_t from = 0;
  do {
    size_t count = std::min(room, longest - from);
    while (count > 1 && !fits({from, count})) count = (count + 1) / 2;
    cuts_.push_back({.from = from, .count = count});
    from += count;
  } while (from < longest);
}

StagedPiece StagedPieces::build(const Cut& cut, std::byte* staging) const {
  Builder builder(command_, place_, staging);
  if (!command_.transfers.empty()) {
    builder.addTransfers();
    return builder.take();
  }
  if (cut.stays) {
    builder.addUnevenInPlace();
  } else if (command_.call.uneven) {
    builder.addUneven(cut.from, cut.count);
  } else if (cut.last == cut.first) {
    builder.addEvenCall(cut.from, cut.count);
  } else {
    for (size_t i = cut.first; i < cut.last; ++i) {
      const ListEntry& entry = command_.list[i];
      // A batch holds whole entries, and what is cut is alone.
      const bool is_whole = cut.count == 0;
      builder.addListed(entry, is_whole ? 0 : cut.from, is_whole ? entry.count : cut.count);
    }
  }
  builder.addScalar();
  return builder.take();
}

}  // namespace horing
