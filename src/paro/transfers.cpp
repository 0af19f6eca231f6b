#include "paro/transfers.h"

#include <algorithm>
#include <vector>

#include "paro/convert.h"
#include "paro/exchange.h"
#include "paro/status_of.h"

namespace horing::paro {

Status Transfers::open(Backend& backend) {
  shares_ = grid_.blocks().shares(grid_.rank());
  backend_ = &backend;
  HORING_ASSIGN(stream_, backend.makeStream());
  return {};
}

Status Transfers::use(horingComm_t comm, float* zero) const {
  HORING_TRY(stream_->follow());
  return statusOf(horingAllReduce(zero, zero, 1, horingFloat32, horingSum, comm, stream_->get()));
}

Result<Completion> Transfers::completion() const {
  HORING_ASSIGN(std::shared_ptr<const Awaited> mark, stream_->mark());
  return Completion(std::move(mark));
}

Status Transfers::call(const Move& move, const Data& data, horingRedOp_t op) const {
  if (grid_.crossesRails(move))
    return Exchange(grid_, move, data.vector).gather({data.block, data.type}, stream_->get());
  const horingComm_t comm = grid_.communicator(move.scope);
  const Range block = grid_.block(move.coarse, data.vector);
  if (move.collective == horingParoAllReduce)
    return statusOf(
        horingAllReduce(data.block, data.block, block.count, data.type, op, comm, stream_->get()));
  const Range own = grid_.block(fineOf(move), data.vector);
  std::byte* const part = data.block + (own.first - block.first) * bytesOf(data.type);
  if (!grid_.blocks().equal(fineOf(move))) return statusOf(callUneven(move, data, part, op));
  const horingBlockOrder_t order = move.scope == horingParoGlobal ? grid_.order() : horingRankMajor;
  if (move.collective == horingParoReduceScatter)
    return statusOf(
        horingReduceScatterOrdered(data.block, part, own.count, data.type, op, order, comm, stream_->get()));
  return statusOf(horingAllGatherOrdered(data.own ? data.own : part, data.block, own.count, data.type, order,
                                         comm, stream_->get()));
}

horingResult_t Transfers::callUneven(const Move& move, const Data& data, std::byte* part,
                                     horingRedOp_t op) const {
  const Blocks& blocks = grid_.blocks();
  std::vector<size_t> counts,
      firsts;  // by rank of the communicator, in which a group's ranks are in the order of local indices
  const auto add = [&](int rank) {
    const Range block = blocks.of(fineOf(move), rank, data.vector);
    counts.push_back(block.count);
    firsts.push_back(block.first);
  };
  if (move.scope == horingParoGroup)
    std::ranges::for_each(blocks.members(grid_.place().group), add);
  else
    for (int rank = 0; rank < blocks.ranks(); ++rank) add(rank);
  const horingComm_t comm = grid_.communicator(move.scope);
  if (move.collective == horingParoReduceScatter)
    return horingReduceScatterV(data.block, counts.data(), firsts.data(), part, data.type, op, comm,
                                stream_->get());
  const size_t own = grid_.block(fineOf(move), data.vector).count;
  return horingAllGatherV(data.own ? data.own : part, own, data.block, counts.data(), firsts.data(),
                          data.type, comm, stream_->get());
}

void Transfers::count(const Move& move, const Data& data) {
  const Sent sent = sentBy(move, shares_, static_cast<double>(data.vector.count * bytesOf(data.type)));
  sent_.slow += sent.slow;
  sent_.fast += sent.fast;
}

Status Transfers::issue(const Move& move, const Data& data, bool average) {
  HORING_TRY(stream_->follow());
  HORING_TRY(call(move, data, average ? horingAvg : horingSum));
  count(move, data);
  return {};
}

size_t Transfers::scratchCount(const Move& move, const Padded& vector) const {
  return Exchange(grid_, move, vector).received();
}

Status Transfers::scatter(const Move& move, const Data& data, std::byte* scratch) {
  HORING_TRY(stream_->follow());
  HORING_TRY(Exchange(grid_, move, data.vector).scatter({data.block, data.type}, scratch, stream_->get()));
  count(move, data);
  return {};
}

Status Transfers::fold(const Move& move, const Data& data, const std::byte* scratch, bool average) {
  const Exchange exchange(grid_, move, data.vector);
  HORING_TRY(exchange.fold(*backend_, {data.block, data.type}, scratch, average));
  if (move.collective == horingParoReduceScatter) return {};
  HORING_TRY(stream_->follow());
  return exchange.gather({data.block, data.type}, stream_->get());
}

}  // namespace horing::paro
