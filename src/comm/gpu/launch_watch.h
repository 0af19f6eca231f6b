#pragma once
// Makes the kernel launches of one rank visible to other ranks: each launch is an entry of the call ledger (control/call_ledger.h) and of
// the flight recorder, numbered from kFirstLaunch on.
//
// The caller does not wait for launches, and a GPU sends no notification; so a thread polls the launches in flight. It reports launches
// that hang, ends kernels when another rank has failed, and asks for a verdict when kernels give up. It sleeps while no launch is in
// flight. A launch recorded into a graph counts as done once recorded; replays are identified by counters that kernels keep
// (control/replay_number.h).
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

#include "base/flight_recorder.h"
#include "base/service_thread.h"
#include "comm/communicator.h"
#include "comm/gpu/team.h"

namespace horing {

// Any thread; begin(): one thread at a time. Arguments must outlive it.
class LaunchWatch {
 public:
  LaunchWatch(Communicator& communicator, GpuTeam& team);
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  // Records a launch; returns its number, for the LaneCall. Sets `sequence` and times of the record. Error: the thread could not be
  // started.
  Result<uint64_t> begin(FlightRecord launch);
  // Records a launch of these sends and receives, which is not in the ledger. Error: as for begin().
  Status beginMessages(std::span<const Transfer> transfers);
  // The launch was recorded into a graph.
  void recorded(uint64_t launch);
  // The launch is withdrawn, on all ranks.
  void withdrawn(uint64_t launch);
  // The launch failed with `own`. Returns the verdict if another rank is to blame, else `own`; waits at most 2 s.
  Status judge(uint64_t launch, const Status& own);
  // The verdict on kernels that gave up; ok: none did.
  Status outcome();

 private:
  // `timeout_ms`: of the call, if it is overdue.
  Status judge(uint64_t launch, const Status& own, int64_t timeout_ms);
  // By the number in the ledger.
  Status judgeCall(uint64_t number, const Obstacle& obstacle, const Status& own, int64_t timeout_ms);
  void serve();
  // Whether any launch is in flight. Error: launches have failed, which the next call reports.
  Result<bool> look();
  Status noteEnded();
  void recordMessages(std::span<const Transfer> transfers);
  void endMessages();
  void end(uint64_t done);
  Status startThread();
  // Under mutex_.
  bool areMessagesUnderWay() const { return messages_ended_ < messages_begun_; }

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  GpuTeam& team_;
  SteadyClock clock_;
  std::mutex judge_mutex_;  // before mutex_
  Watchdog watchdog_;       // under judge_mutex_
  std::optional<Status> judged_;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;             // under mutex_, like all members below
  uint64_t ended_ = 0;            // all launches before this one have ended
  std::set<uint64_t> recorded_;   // at or after ended_: recorded launches behind a launch in flight
  std::set<uint64_t> withdrawn_;  // the same for withdrawn launches
  uint64_t passed_over_ = 0;      // withdrawn launches before ended_, which no GPU counts
  uint64_t messages_begun_ = 0, messages_ended_ = 0;  // launches of sends and receives
  uint64_t records_ended_ = 0;                        // all records of messages before this one are of these
  int64_t went_on_ns_ = 0;  // when the latest launch ended, or began with none in flight
  bool sleeps_ = false;
  bool has_failed_ = false;
  int64_t abort_from_ns_ = 0;  // used by the thread only
  bool stop_ = false;
  ServiceThread thread_;
};

}  // namespace horing
