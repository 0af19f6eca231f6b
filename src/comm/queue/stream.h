#pragma once
// An in-order queue of operations: each begins when those before it on the stream have ended.
//
// The stream holds no operations. It gives out turns, and whoever carries an operation out waits for its turn: so
// operations of several communicators can share a stream, and several streams one communicator. Turns and the order of
// a communicator's operations (comm/queue/command_queue.h) both follow the order of the calls, so they never wait for each
// other in a circle.
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

// Any thread, but that nobody may use it while it is destroyed.
class Stream {
 public:
  using Callback = std::function<void(const Status&)>;
  using Turn = uint64_t;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes the next turn on each of these streams, which differ; finish() must follow for it on each. At once: what another thread
  // enters comes before this on all of them, or after it. Reorders them.
  static void enter(std::span<StreamTurn> turns);
  // Blocks until all turns before are finished, no longer than their operations' deadlines, or `abandoned()`.
  void awaitTurn(Turn turn, const std::function<bool()>& abandoned);
  // Whether awaitTurn() would return at once.
  bool isTurn(Turn turn) const;
  // Lets those that await a turn look at `abandoned`.
  void wake();
  // A turn that was abandoned counts as finished when those before it are. Adds what is to be called back now; the stream may
  // be gone then. Takes memory only for a turn that was abandoned.
  class DueCallbacks;
  void finish(Turn turn, const Status& status, DueCallbacks& due);

  // Calls back once all turns taken so far are finished, with the first error among them since the last
  // synchronize(): from the thread that finishes the last, or at once.
  void callBack(Callback callback);

  // Blocks until all turns taken so far are finished. The first error among them since the last synchronize().
  Status synchronize();
  // Behind the turns taken so far.
  Turn mark() const;
  // Waits for the turns before the mark, or for all taken so far if these are fewer. The first error among them since the last
  // synchronize(), which stays; kInProgress: the time is up.
  Status wait(Turn mark, std::chrono::milliseconds timeout);
  // As synchronize() if all turns taken so far are finished; else kInProgress, at once.
  Status query();

 private:
  struct Waiting {
    Turn after;  // call when so many turns are finished
    Callback callback;
    Status error{};  // once it is due
  };

  void finishNext(const Status& status);

  mutable std::mutex mutex_;
  std::condition_variable finished_turn_;
  Turn next_ = 0;
  Turn finished_ = 0;                 // all turns before this one are
  std::map<Turn, Status> abandoned_;  // ended before all turns before them were finished
  Status error_;
  Turn error_turn_ = 0;  // whose error that is
  std::list<Waiting> callbacks_;
};

// Of any streams.
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
