#pragma once
// Collectives in flight: issued on a stream; callers that need the data wait for their completion.
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "paro/grid.h"

namespace horing::paro {

// The completion of everything issued on a stream so far. Copies share state; an empty completion is complete.
class Completion {
 public:
  Completion() = default;
  static Result<Completion> of(horingStream_t stream);

  // Waits, at most until the operations' deadlines.
  Status wait() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;  // under mutex, like result
    horingResult_t result = horingSuccess;
    horingStream_t stream = nullptr;  // constant; outlives all waiters
  };
  static void complete(horingStream_t stream, horingResult_t result, void* kept);

  std::shared_ptr<State> state_;
};

// Issues the collectives of a strategy in order on its own stream, and counts the bytes that this rank sends.
class Transfers {
 public:
  explicit Transfers(const Grid& grid) : grid_(grid) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  Status open();

  // A block of the move's coarser partition of a vector of `count` elements. If `own` is not null, it is this rank's input of an all-gather;
  // otherwise everything is in place.
  struct Data {
    std::byte* block;
    const std::byte* own;
    size_t count;
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
  size_t scratchCount(const Move& move, size_t count) const;
  Status scatter(const Move& move, const Data& data, std::byte* scratch);
  Status fold(const Move& move, const Data& data, const std::byte* scratch, bool average);
  Result<Completion> completion() const { return Completion::of(stream_); }

  const Sent& sent() const { return sent_; }

 private:
  Status call(const Move& move, const Data& data, horingRedOp_t op) const;
  // Of blocks that differ in size.
  horingResult_t callUneven(const Move& move, const Data& data, std::byte* part, horingRedOp_t op) const;
  void count(const Move& move, const Data& data);

  const Grid& grid_;
  Shares shares_;
  horingStream_t stream_ = nullptr;
  Sent sent_;
};

}  // namespace horing::paro
