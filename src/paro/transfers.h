#pragma once
// Collectives in flight: issued on a stream; work that needs the data waits for their completion.
#include <memory>

#include "base/status.h"
#include "paro/backend.h"
#include "paro/grid.h"

namespace horing::paro {

// The completion of everything issued on a stream so far. Copies share state; an empty completion is complete.
class Completion {
 public:
  Completion() = default;
  explicit Completion(std::shared_ptr<const Awaited> mark) : mark_(std::move(mark)) {}

  // On the host waits, at most until the operations' deadlines; a GPU's stream does, and the call returns.
  Status await() const { return mark_ ? mark_->await() : Status(); }

 private:
  std::shared_ptr<const Awaited> mark_;
};

// Issues the collectives of a strategy in order on its own stream, and counts the bytes that this rank sends.
class Transfers {
 public:
  explicit Transfers(const Grid& grid) : grid_(grid) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // `backend`: of the data. It must outlive this.
  Status open(Backend& backend);

  // The first operation of a communicator, on a number that is 0 on all ranks.
  Status use(horingComm_t comm, float* zero) const;

  // A block of the move's coarser partition of a vector. If `own` is not null, it is this rank's input of an all-gather;
  // otherwise everything is in place.
  struct Data {
    std::byte* block;
    const std::byte* own;
    Padded vector;
    horingDataType_t type;
  };
  // Not of a move that folds().
  Status issue(const Move& move, const Data& data, bool average);

  // Whether the ranks add up themselves what they receive: reductions that cross rails. Instead of issue() they call scatter(), and when
  // that is complete, fold(), which issues what is left.
  bool folds(const Move& move) const {
    return grid_.crossesRails(move) && move.collective != horingParoAllGather;
  }
  // Elements of the scratch memory that scatter() fills and fold() reads.
  size_t scratchCount(const Move& move, const Padded& vector) const;
  Status scatter(const Move& move, const Data& data, std::byte* scratch);
  Status fold(const Move& move, const Data& data, const std::byte* scratch, bool average);
  Result<Completion> completion() const;

  const Sent& sent() const { return sent_; }

 private:
  Status call(const Move& move, const Data& data, horingRedOp_t op) const;
  // Of blocks that differ in size.
  horingResult_t callUneven(const Move& move, const Data& data, std::byte* part, horingRedOp_t op) const;
  void count(const Move& move, const Data& data);

  const Grid& grid_;
  Shares shares_;
  Backend* backend_ = nullptr;
  std::unique_ptr<TransferStream> stream_;
  Sent sent_;
};

}  // namespace horing::paro
