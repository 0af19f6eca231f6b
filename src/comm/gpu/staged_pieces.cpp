#include "comm/gpu/staged_pieces.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include "base/check.h"
#include "base/quotient.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr size_t kAlignment = 64;

// A range of elements in every block.
struct Range {
  size_t from;
  size_t count;
  // The elements of the range in a block of `elements`.
  size_t of(size_t elements) const { return std::min(count, elements - std::min(from, elements)); }
};

}  // namespace

// Allocates host memory from `staging` on, and records the copies in and out.
class StagedPieces::Builder {
 public:
  Builder(const Command& command, StagedPlace place, std::byte* staging)
      : command_(command), place_(place), begin_(cudaAddress(staging)), next_(begin_) {
    if (!command.call()) return;
    call_ = *command.call();
    contract_ = contractOf(call_.collective);
    element_bytes_ = dataTypeBytes(call_.type);
  }

  StagedPiece takeExchange() { return take(Command(ExchangeCommand{std::move(transfers_)})); }
  StagedPiece takeList() { return take(Command(ListCommand{call_, std::move(entries_)})); }
  StagedPiece takeCollective() { return take(Command(CollectiveCommand{call_, std::move(tables_)})); }

  void addTransfers() {
    for (Transfer transfer : command_.transfers()) {
      const bool has_room = !place_.copier || next_ - begin_ + transfer.bytes <= kPieceBytes;
      if (!transfer.copier && !has_room) transfer.copier = place_.copier;
      if (transfer.copier) {
        transfers_.push_back(transfer);
        continue;
      }
      if (transfer.bytes > 0) stage(transfer);
      transfers_.push_back(transfer);
    }
  }

  // No other messages have memory of a GPU.
  void stage(Transfer& transfer) {
    const CudaAddress at = reserve(transfer.bytes);
    if (auto* const send = std::get_if<Transfer::Send>(&transfer.kind)) {
      copyIn(at, cudaAddress(send->input), transfer.bytes, isPinned(send->input));
      send->input = pointer(at);
    } else {
      auto* const receive = std::get_if<Transfer::Receive>(&transfer.kind);
      HORING_CHECK(receive != nullptr);
      copyOut(cudaAddress(receive->output), at, transfer.bytes, isPinned(receive->output));
      receive->output = pointer(at);
    }
  }

  // Adds elements [from, from + count) of each block of `whole` elements; returns their host buffers.
  ListEntry addEven(const ListEntry& buffers, size_t whole, size_t from, size_t count) {
    ListEntry staged{.count = count};
    if (hasInput()) {
      const Rows rows{blocksIn(contract_.in), whole, from, count};
      const CudaAddress at = reserve(rows.blocks * count * element_bytes_);
      const bool is_pinned = isPinned(buffers.input);
      forEachRow(rows, [&](size_t theirs, size_t ours, size_t bytes) {
        copyIn(at + ours, cudaAddress(buffers.input) + theirs, bytes, is_pinned);
      });
      staged.input = pointer(at);
    }
    if (hasOutput()) {
      const Rows rows{blocksIn(contract_.out), whole, from, count};
      const CudaAddress at = reserve(rows.blocks * count * element_bytes_);
      const bool is_pinned = isPinned(buffers.output);
      forEachRow(rows, [&](size_t theirs, size_t ours, size_t bytes) {
        copyOut(cudaAddress(buffers.output) + theirs, at + ours, bytes, is_pinned);
      });
      staged.output = pointer(at);
    }
    return staged;
  }

  void addEvenCall(size_t from, size_t count) {
    const ListEntry staged = addEven({call_.input, call_.output, call_.count}, call_.count, from, count);
    call_.input = staged.input;
    call_.output = staged.output;
    call_.count = staged.count;
  }

  void addListed(const ListEntry& entry, size_t from, size_t count) {
    entries_.push_back(addEven(entry, entry.count, from, count));
  }

  // Adds elements [from, from + count) of blocks that differ in size, as far as each block has them, packed; a buffer without a table is
  // this rank's own block.
  void addUneven(size_t from, size_t count) {
    const auto ranks = static_cast<size_t>(place_.ranks);
    tables_.resize(4 * ranks);
    size_t* const tables = tables_.data();
    const Range range{from, count};
    call_.count = range.of(call_.count);
    if (hasInput()) {
      const CudaAddress theirs = cudaAddress(call_.input);
      const bool is_pinned = isPinned(call_.input);
      const CudaAddress at = addUnevenBuffer(call_.input_blocks, range, tables);
      forEachBlock(call_.input_blocks, range, tables, [&](size_t offset, size_t packed, size_t bytes) {
        copyIn(at + packed, theirs + offset, bytes, is_pinned);
      });
      call_.input = pointer(at);
      if (call_.input_blocks.given()) call_.input_blocks = {tables, tables + ranks};
    }
    if (hasOutput()) {
      const CudaAddress theirs = cudaAddress(call_.output);
      const bool is_pinned = isPinned(call_.output);
      size_t* const outputs = tables + 2 * ranks;
      const CudaAddress at = addUnevenBuffer(call_.output_blocks, range, outputs);
      forEachBlock(call_.output_blocks, range, outputs, [&](size_t offset, size_t packed, size_t bytes) {
        copyOut(theirs + offset, at + packed, bytes, is_pinned);
      });
      call_.output = pointer(at);
      if (call_.output_blocks.given()) call_.output_blocks = {outputs, outputs + ranks};
    }
  }

  // Adds blocks that are not staged.
  void addUnevenInPlace() {
    call_.copier = place_.copier;
    const auto ranks = static_cast<size_t>(place_.ranks);
    tables_.reserve(4 * ranks);
    for (Blocks* const blocks : {&call_.input_blocks, &call_.output_blocks}) {
      if (!blocks->given()) continue;
      const size_t begin = tables_.size();
      tables_.insert(tables_.end(), blocks->counts, blocks->counts + ranks);
      tables_.insert(tables_.end(), blocks->offsets, blocks->offsets + ranks);
      *blocks = {tables_.data() + begin, tables_.data() + begin + ranks};
    }
  }

  // Adds the factor of a premulsum that is read when the operation begins. A factor in pinned memory is read in place by every piece: a
  // driver's host-to-host copy blocks, and the stream may wait for this very operation.
  void addScalar() {
    if (!call_.factor_at || call_.factor_is_pinned) return;
    const CudaAddress at = reserve(element_bytes_);
    copyIn(at, cudaAddress(call_.factor_at), element_bytes_, false);
    call_.factor_at = pointer(at);
  }

 private:
  StagedPiece take(Command command) {
    piece_.host.command = std::move(command);
    piece_.staged_bytes = next_ - begin_;
    return std::move(piece_);
  }

  struct Rows {
    size_t blocks;
    size_t whole;  // elements of a block
    size_t from;
    size_t count;
  };

  static std::byte* pointer(CudaAddress at) { return reinterpret_cast<std::byte*>(at); }
  bool isRoot() const { return call_.root == place_.rank; }
  bool hasInput() const { return contract_.in != ChunkSet::kEveryAtRoot || isRoot(); }
  bool hasOutput() const { return contract_.out != ChunkSet::kEveryAtRoot || isRoot(); }
  size_t blocksIn(ChunkSet set) const { return horing::blocksIn(set, call_.collective, place_.ranks); }

  CudaAddress reserve(size_t bytes) {
    const CudaAddress at = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  bool isPinned(const void* buffer) const {
    return std::find(command_.pinned.begin(), command_.pinned.end(), buffer) != command_.pinned.end();
  }
  void copyIn(CudaAddress to, CudaAddress from, size_t bytes, bool is_pinned) {
    if (bytes > 0) (is_pinned ? piece_.host.in : piece_.in).push_back({to, from, bytes});
  }
  void copyOut(CudaAddress to, CudaAddress from, size_t bytes, bool is_pinned) {
    if (bytes > 0) (is_pinned ? piece_.host.out : piece_.out).push_back({to, from, bytes});
  }

  // visit(offset in the caller's buffer, offset in staging memory, bytes): merges whole blocks that are contiguous in both.
  template <typename Visit>
  void forEachRow(const Rows& rows, const Visit& visit) const {
    if (rows.count == rows.whole) return visit(0, 0, rows.blocks * rows.count * element_bytes_);
    for (size_t block = 0; block < rows.blocks; ++block)
      visit((block * rows.whole + rows.from) * element_bytes_, block * rows.count * element_bytes_,
            rows.count * element_bytes_);
  }

  // Fills a table of counts and offsets of packed blocks, and reserves their memory.
  CudaAddress addUnevenBuffer(const Blocks& given, Range range, size_t* table) {
    if (!given.given()) return reserve(call_.count * element_bytes_);
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
    if (!given.given()) return visit(range.from * element_bytes_, 0, call_.count * element_bytes_);
    const auto ranks = static_cast<size_t>(place_.ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      visit((given.offsets[rank] + range.from) * element_bytes_, table[ranks + rank] * element_bytes_,
            table[rank] * element_bytes_);
  }

  const Command& command_;
  const StagedPlace place_;
  Call call_;  // of the piece, like the next three members
  std::vector<size_t> tables_;
  std::vector<ListEntry> entries_;
  std::vector<Transfer> transfers_;
  Contract contract_;
  size_t element_bytes_ = 1;
  StagedPiece piece_;
  const CudaAddress begin_;
  CudaAddress next_;
};

StagedPieces::StagedPieces(const Command& command, StagedPlace place) : command_(command), place_(place) {
  if (command.isExchange()) {
    cuts_.push_back({});
  } else if (const Call& call = *command.call(); call.uneven) {
    const bool is_gather = call.collective == Collective::kAllGather;
    const bool all_know = is_gather || call.collective == Collective::kReduceScatter;
    cutUnevenly(!all_know ? nullptr : is_gather ? call.output_blocks.counts : call.input_blocks.counts);
  } else if (!command.entries().empty()) {
    cutList();
  } else {
    cutEvenly({.count = call.count});
  }
  for (const Cut& cut : cuts_) {
    const StagedPiece piece = build(cut, nullptr);
    largest_bytes_ = std::max(largest_bytes_, piece.staged_bytes);
    has_copier_ |= horing::hasCopier(piece.host.command);
  }
}

// Small entries share a piece, in which they are packed (comm/coalesced.h).
void StagedPieces::cutList() {
  const CallSpec& call = *command_.call();
  const std::span<const ListEntry> list = command_.entries();
  const size_t bytes_of_one = 2 * blocksOf(call.collective, place_.ranks) * dataTypeBytes(call.type);
  Cut batch;
  size_t batch_bytes = 0;
  const auto finish = [&](size_t next) {
    if (batch.last > batch.first) cuts_.push_back(batch);
    batch = {next, next, 0, 0};
    batch_bytes = 0;
  };
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t bytes = list[i].count * bytes_of_one + 2 * kAlignment;
    if (batch_bytes + bytes > kPieceBytes) finish(i);
    if (bytes > kPieceBytes) {
      cutEvenly({i, i + 1, 0, list[i].count});
      finish(i + 1);
      continue;
    }
    batch.last = i + 1;
    batch_bytes += bytes;
  }
  finish(0);
}

// Sizes come from the call, not from buffers that this rank may lack: all ranks must cut alike.
void StagedPieces::cutEvenly(Cut whole) {
  const CallSpec& call = *command_.call();
  const size_t bytes_of_one = 2 * blocksOf(call.collective, place_.ranks) * dataTypeBytes(call.type);
  const size_t most = std::max<size_t>(kPieceBytes / bytes_of_one, 1);
  const size_t pieces = std::max<size_t>(quotientUp(whole.count, most), 1);
  const size_t each = quotientUp(whole.count, pieces);
  size_t from = 0;
  do {
    cuts_.push_back({whole.first, whole.last, from, std::min(each, whole.count - from)});
    from += each;
  } while (from < whole.count);
}

// Null: block sizes that this rank does not know.
void StagedPieces::cutUnevenly(const size_t* counts) {
  if (!counts) {
    const Cut all{.count = SIZE_MAX};
    const bool has_room = !place_.copier || build(all, nullptr).staged_bytes <= kPieceBytes;
    return cuts_.push_back(has_room ? all : Cut{.stays = true});
  }
  const std::span<const size_t> blocks(counts, static_cast<size_t>(place_.ranks));
  const size_t longest = *std::max_element(blocks.begin(), blocks.end());
  const size_t room = kPieceBytes / (2 * dataTypeBytes(command_.call()->type));
  // As blocks end, ranges become longer.
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
  if (command_.isExchange()) {
    builder.addTransfers();
    return builder.takeExchange();
  }
  for (size_t i = cut.first; i < cut.last; ++i) {
    const ListEntry& entry = command_.entries()[i];
    // A batch holds whole entries; a cut entry is alone.
    const bool is_whole = cut.count == 0;
    builder.addListed(entry, is_whole ? 0 : cut.from, is_whole ? entry.count : cut.count);
  }
  const bool is_list = cut.last > cut.first;
  if (cut.stays) {
    builder.addUnevenInPlace();
  } else if (command_.call()->uneven) {
    builder.addUneven(cut.from, cut.count);
  } else if (!is_list) {
    builder.addEvenCall(cut.from, cut.count);
  }
  builder.addScalar();
  return is_list ? builder.takeList() : builder.takeCollective();
}

}  // namespace horing
