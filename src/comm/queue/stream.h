#pragma once
// An in-order queue of operations: each begins when all earlier operations on the stream have ended.
//
// The stream holds no operations. It gives out turns (tickets), and the thread that runs an operation waits for its turn: so operations of
// several communicators can share a stream, and several streams can share a communicator. Turns and the order of a communicator's
// operations (comm/queue/command_queue.h) both follow the order of the calls, so they cannot deadlock.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <span>

#include "base/status.h"

namespace horing {

class Stream;
// The place of an operation on one of its streams.
struct StreamTurn {
  Stream* stream;
  uint64_t turn = 0;
};

// Any thread; not used while it is being destroyed.
class Stream {
 public:
  using Callback = std::function<void(const Status&)>;
  using Turn = uint64_t;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes the next turn on each of these distinct streams; finish() must follow for each. Atomic: a concurrent enter() is ordered before or
  // after this one on all of the streams. Reorders `turns`.
  static void enter(std::span<StreamTurn> turns);
  // Blocks until all earlier turns are finished (at most until their operations' deadlines), or `abandoned()`.
  void awaitTurn(Turn turn, const std::function<bool()>& abandoned);
  // Whether awaitTurn() would return at once.
  bool isTurn(Turn turn) const;
  // Makes threads in awaitTurn() check `abandoned`.
  void wake();
  // An abandoned turn counts as finished once all earlier turns are. Collects the callbacks that are due now; the stream may be destroyed
  // before they run. Allocates only for an abandoned turn.
  class DueCallbacks;
  void finish(Turn turn, const Status& status, DueCallbacks& due);

  // Calls back once all turns before the mark that were taken so far are finished, with the first error among them since
  // the last synchronize(): from the thread that finishes the last, or at once.
  static constexpr Turn kAll = UINT64_MAX;
  void callBack(Callback callback, Turn mark = kAll);

  // Blocks until all turns taken so far are finished. The first error among them since the last synchronize().
  Status synchronize();
  // A mark behind all turns taken so far.
  Turn mark() const;
  // Waits for the turns before the mark, at most for all turns taken so far. Returns the first error among them since the last
  // synchronize(), without clearing it; kInProgress: timed out.
  Status wait(Turn mark, std::chrono::milliseconds timeout);
  // As synchronize() if all turns taken so far are finished, else kInProgress; does not block.
  Status query();

 private:
  struct Waiting {
    Turn after;  // due when this many turns are finished
    Callback callback;
    Status error{};  // set when due
  };

  void finishNext(const Status& status);
  Status errorBefore(Turn mark) const;

  mutable std::mutex mutex_;
  std::condition_variable finished_turn_;
  Turn next_ = 0;
  Turn finished_ = 0;                 // all turns before this one are
  std::map<Turn, Status> abandoned_;  // ended before all earlier turns were finished
  Status error_;
  Turn error_turn_ = 0;           // the turn of the first error
  std::list<Waiting> callbacks_;  // in the order of `after`
};

// Due callbacks of any streams.
class Stream::DueCallbacks {
 public:
  void call() const {
    for (const Waiting& waiting : due_) waiting.callback(waiting.error);
  }

 private:
  friend class Stream;
  std::list<Waiting> due_;
};

}  // namespace horing
