#include "paro/exchange.h"

#include <algorithm>

#include "base/quotient.h"
#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

Exchange::Exchange(const Grid& grid, const Move& move, const Padded& vector)
    : grid_(grid),
      is_all_reduce_(move.collective == horingParoAllReduce),
      vector_(vector),
      block_(grid.block(horingParoByGroup, vector)) {
  const Blocks& blocks = grid.blocks();
  const int mine = grid.rank();
  for (int rank = 0; is_all_reduce_ && rank < blocks.ranks(); ++rank)
    cuts_.push_back(blocks.of(horingParoByGroup, rank, vector).first);
  cuts_.push_back(vector.count);
  std::ranges::sort(cuts_);
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  own_ = ownedBy(mine);
  for (int step = 1; step < blocks.groups(); ++step)
    for (const int peer : blocks.members((grid.place().group + step) % blocks.groups())) {
      const Range theirs = blocks.of(horingParoByGroup, peer, vector);
      if (overlapOf(theirs, block_).count == 0) continue;
      for (const Range& part : own_)
        if (const Range range = overlapOf(part, theirs); range.count > 0) to_own_.push_back({peer, range});
      for (const Range& part : ownedBy(peer))
        if (const Range range = overlapOf(part, block_); range.count > 0) others_.push_back({peer, range});
    }
}

std::vector<Range> Exchange::ownedBy(int rank) const {
  const Blocks& blocks = grid_.blocks();
  if (!is_all_reduce_) return {blocks.of(horingParoByAll, rank, vector_)};
  const Range block = blocks.of(horingParoByGroup, rank, vector_);
  const auto groups = static_cast<size_t>(blocks.groups());
  const auto group = static_cast<size_t>(blocks.place(rank).group);
  std::vector<Range> parts;
  auto cut = std::ranges::lower_bound(cuts_, block.first);
  for (; cut != cuts_.end() && *cut < block.end(); ++cut) {
    const size_t piece = *(cut + 1) - *cut;
    const size_t first = alignedShare(piece, group, groups, vector_.unit);
    const size_t end = alignedShare(piece, group + 1, groups, vector_.unit);
    parts.push_back({*cut + first, end - first});
  }
  return parts;
}

size_t Exchange::received() const {
  size_t sum = 0;
  for (const Message& message : to_own_) sum += message.range.count;
  return sum;
}

std::byte* Exchange::at(const Data& data, const Range& range) const {
  return data.block + (range.first - block_.first) * bytesOf(data.type);
}

Status Exchange::send(const std::vector<Message>& sent, const std::vector<Message>& received,
                      const Data& data, std::byte* scratch, horingStream_t stream) const {
  const horingComm_t comm = grid_.communicator(horingParoGlobal);
  HORING_TRY(statusOf(horingGroupStart()));
  Status status;
  for (const auto& [peer, range] : sent)
    if (status.ok())
      status = statusOf(horingSend(at(data, range), range.count, data.type, peer, comm, stream));
  for (const auto& [peer, range] : received) {
    std::byte* const to = scratch ? scratch : at(data, range);
    if (status.ok()) status = statusOf(horingRecv(to, range.count, data.type, peer, comm, stream));
    if (scratch) scratch += range.count * bytesOf(data.type);
  }
  const Status issued = statusOf(horingGroupEnd());
  return status.ok() ? issued : status;
}

Status Exchange::scatter(const Data& data, std::byte* scratch, horingStream_t stream) const {
  return send(others_, to_own_, data, scratch, stream);
}

Status Exchange::gather(const Data& data, horingStream_t stream) const {
  return send(to_own_, others_, data, nullptr, stream);
}

Status Exchange::fold(Backend& backend, const Data& data, const std::byte* scratch, bool average) const {
  const Blocks& blocks = grid_.blocks();
  const auto weight = [&](int rank) {
    const auto members = static_cast<double>(blocks.members(blocks.place(rank).group).size());
    return average ? members / blocks.ranks() : 1;
  };
  if (average)
    for (const Range& part : own_)
      HORING_TRY(backend.scale(at(data, part), weight(grid_.rank()), data.type, part.count));
  for (const Message& each : to_own_) {
    HORING_TRY(
        backend.accumulate(at(data, each.range), scratch, data.type, each.range.count, weight(each.peer)));
    scratch += each.range.count * bytesOf(data.type);
  }
  return {};
}

}  // namespace horing::paro
