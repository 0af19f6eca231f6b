#pragma once
// The end of the check's time, whatever it waits for: the timeout of a call limits that call alone, and some things have no timeout.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

#include "base/service_thread.h"
#include "horing/horing.h"

namespace horing::check {

// A call waits at least so long, also when the time is over: longer than messages take on a busy machine.
constexpr int kLeastWaitMs = 1000;
// Then calls that still run are ended, and their communicators with them.
constexpr std::chrono::milliseconds kRevokedAfter{1000};
// Then the process ends, although something is in its way: a network or a driver that does not answer, a process that hardly runs.
constexpr std::chrono::milliseconds kExitedAfter{3000};

// A resource: a thread. Any thread may call its members.
class TimeLimit {
 public:
  // Of this process. `exit` is called from the thread if the object still exists then; it must not return.
  TimeLimit(std::chrono::steady_clock::time_point end, void (*exit)());
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  // Ends its calls with the time, at once if that is over. Leave it out again before it is destroyed.
  void add(horingComm_t comm);
  void remove(horingComm_t comm);
  // Whether it has ended the calls.
  bool isOver();

 private:
  void run();
  void revokeAll();

  const std::chrono::steady_clock::time_point end_;
  void (*const exit_)();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<horingComm_t> comms_;
  bool is_over_ = false, is_done_ = false;
  ServiceThread thread_;
};

}  // namespace horing::check
