#include "paro/transfers.h"

#include "paro/convert.h"
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
  return statusOf(horingStreamCreate(&stream_));
}

horingResult_t Transfers::call(const Move& move, const Data& data, horingRedOp_t op) const {
  const horingComm_t comm = grid_.communicator(move.scope);
  if (move.collective == horingParoAllReduce)
    return horingAllReduce(data.block, data.block, data.count, data.type, op, comm, stream_);
  const size_t count = data.count / static_cast<size_t>(grid_.sharers(move.scope));
  const horingBlockOrder_t order = move.scope == horingParoGlobal ? grid_.order() : horingRankMajor;
  std::byte* const part = data.block + grid_.blockIn(move.scope) * count * bytesOf(data.type);
  if (move.collective == horingParoReduceScatter)
    return horingReduceScatterOrdered(data.block, part, count, data.type, op, order, comm, stream_);
  return horingAllGatherOrdered(data.own ? data.own : part, data.block, count, data.type, order, comm,
                                stream_);
}

Status Transfers::issue(const Move& move, const Data& data, bool average) {
  HORING_TRY(statusOf(call(move, data, average ? horingAvg : horingSum)));
  const Sent sent = sentBy(move, grid_.shape(), static_cast<double>(data.count * bytesOf(data.type)));
  sent_.slow += sent.slow;
  sent_.fast += sent.fast;
  return {};
}

}  // namespace horing::paro
