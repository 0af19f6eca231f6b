#include "paro/transfers.h"

#include <algorithm>
#include <vector>

#include "paro/convert.h"
#include "paro/exchange.h"
#include "paro/status_of.h"

namespace horing::paro {

Result<Completion> Completion::of(horingStream_t stream) {
  Completion completion;
  completion.state_ = std::make_shared<State>();
  completion.state_->stream = stream;
  // The callback holds a reference: the client may be destroyed before it returns.
  auto kept = std::make_unique<std::shared_ptr<State>>(completion.state_);
  HORING_TRY(statusOf(horingStreamAddCallback(stream, &Completion::complete, kept.get())));
  (void)kept.release();
  return completion;
}

void Completion::complete(horingStream_t, horingResult_t result, void* kept) {
  const std::unique_ptr<std::shared_ptr<State>> mine(static_cast<std::shared_ptr<State>*>(kept));
  State& state = **mine;
  const std::lock_guard lock(state.mutex);
  state.result = result;
  state.done = true;
  state.changed.notify_all();
}

Status Completion::wait() const {
  if (!state_) return {};
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->result == horingSuccess) return {};
  // horingStreamSynchronize() returns the stream's first error with its text.
  HORING_TRY(statusOf(horingStreamSynchronize(state_->stream)));
  return Status(static_cast<Code>(state_->result), "an earlier collective of this stream failed");
}

Transfers::~Transfers() {
  if (stream_) (void)horingStreamDestroy(stream_);
}

Status Transfers::open() {
  shares_ = grid_.blocks().shares(grid_.rank());
  return statusOf(horingStreamCreate(&stream_));
}

Status Transfers::call(const Move& move, const Data& data, horingRedOp_t op) const {
  if (grid_.crossesRails(move))
    return Exchange(grid_, move, data.count).gather({data.block, data.type}, stream_);
  const horingComm_t comm = grid_.communicator(move.scope);
  const Range block = grid_.block(move.coarse, data.count);
  if (move.collective == horingParoAllReduce)
    return statusOf(horingAllReduce(data.block, data.block, block.count, data.type, op, comm, stream_));
  const Range own = grid_.block(fineOf(move), data.count);
  std::byte* const part = data.block + (own.first - block.first) * bytesOf(data.type);
  if (!grid_.blocks().equal(fineOf(move))) return statusOf(callUneven(move, data, part, op));
  const horingBlockOrder_t order = move.scope == horingParoGlobal ? grid_.order() : horingRankMajor;
  if (move.collective == horingParoReduceScatter)
    return statusOf(
        horingReduceScatterOrdered(data.block, part, own.count, data.type, op, order, comm, stream_));
  return statusOf(horingAllGatherOrdered(data.own ? data.own : part, data.block, own.count, data.type, order,
                                         comm, stream_));
}

horingResult_t Transfers::callUneven(const Move& move, const Data& data, std::byte* part,
                                     horingRedOp_t op) const {
  const Blocks& blocks = grid_.blocks();
  std::vector<size_t> counts,
      firsts;  // by rank of the communicator, in which a group's ranks are in the order of local indices
  const auto add = [&](int rank) {
    const Range block = blocks.of(fineOf(move), rank, data.count);
    counts.push_back(block.count);
    firsts.push_back(block.first);
  };
  if (move.scope == horingParoGroup)
    std::ranges::for_each(blocks.members(grid_.place().group), add);
  else
    for (int rank = 0; rank < blocks.ranks(); ++rank) add(rank);
  const horingComm_t comm = grid_.communicator(move.scope);
  if (move.collective == horingParoReduceScatter)
    return horingReduceScatterV(data.block, counts.data(), firsts.data(), part, data.type, op, comm, stream_);
  const size_t own = grid_.block(fineOf(move), data.count).count;
  return horingAllGatherV(data.own ? data.own : part, own, data.block, counts.data(), firsts.data(),
                          data.type, comm, stream_);
}

void Transfers::count(const Move& move, const Data& data) {
  const Sent sent = sentBy(move, shares_, static_cast<double>(data.count * bytesOf(data.type)));
  sent_.slow += sent.slow;
  sent_.fast += sent.fast;
}

Status Transfers::issue(const Move& move, const Data& data, bool average) {
  HORING_TRY(call(move, data, average ? horingAvg : horingSum));
  count(move, data);
  return {};
}

size_t Transfers::scratchCount(const Move& move, size_t count) const {
  return Exchange(grid_, move, count).received();
}

Status Transfers::scatter(const Move& move, const Data& data, std::byte* scratch) {
  HORING_TRY(Exchange(grid_, move, data.count).scatter({data.block, data.type}, scratch, stream_));
  count(move, data);
  return {};
}

Status Transfers::fold(const Move& move, const Data& data, const std::byte* scratch, bool average) {
  const Exchange exchange(grid_, move, data.count);
  exchange.fold({data.block, data.type}, scratch, average);
  if (move.collective == horingParoReduceScatter) return {};
  return exchange.gather({data.block, data.type}, stream_);
}

}  // namespace horing::paro
