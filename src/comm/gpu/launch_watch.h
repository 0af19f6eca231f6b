#pragma once
// The launches of one rank's kernels, as the other ranks may hear of them: each is a call of the ledger (control/call_ledger.h) and of
// the flight recorder, numbered from kFirstLaunch on.
//
// The caller has gone on, and a GPU tells nobody; so a thread looks after launches that are under way. It reports those that
// do not end, ends kernels when another rank has failed, and has the ranks judge why kernels gave up. It sleeps while there are
// none. What was recorded into a graph counts as done when it was; of replays that give up, of those that others wait in, and in
// flight records, the counts tell that kernels keep (control/replay_number.h).
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

#include "base/flight_recorder.h"
#include "base/service_thread.h"
#include "comm/communicator.h"
#include "comm/gpu/team.h"

namespace horing {

// Any thread, but begin(): one at a time. What it takes must outlive it.
class LaunchWatch {
 public:
  LaunchWatch(Communicator& communicator, GpuTeam& team);
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  // The rank launches that; its number, for the LaneCall. `sequence` and times of the record are set here. Error: no thread to be had.
  Result<uint64_t> begin(FlightRecord launch);
  // The rank launches sends and receives, which are no call of the ledger: kernels shall end with what they wait for. Error: as above.
  Status beginMessages();
  // It is part of a graph.
  void recorded(uint64_t launch);
  // It is none after all, on no rank.
  void withdrawn(uint64_t launch);
  // It failed for this reason, or what another rank is to blame for; waits at most 2 s for that.
  Status judge(uint64_t launch, const Status& own);
  // What kernels left that gave up, judged; ok: none did.
  Status outcome();

 private:
  // By its number in the ledger.
  Status judgeCall(uint64_t number, const Obstacle& obstacle, const Status& own);
  void serve();
  // Whether any is under way. Error: they have failed, which the next call reports.
  Result<bool> look();
  Status noteEnded();
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
  uint64_t next_ = 0;             // under mutex_, as all that follows
  uint64_t ended_ = 0;            // launches, all before this one
  std::set<uint64_t> recorded_;   // not before ended_: parts of graphs, behind a launch that is under way
  std::set<uint64_t> withdrawn_;  // as these: none after all
  uint64_t passed_over_ = 0;      // of those before ended_, how many were withdrawn: no GPU has counted them
  uint64_t messages_begun_ = 0, messages_ended_ = 0;  // launches of sends and receives
  int64_t went_on_ns_ = 0;                            // when the latest ended, or began after none
  bool sleeps_ = false;
  bool has_failed_ = false;
  int64_t abort_from_ns_ = 0;  // of the thread
  bool stop_ = false;
  ServiceThread thread_;
};

}  // namespace horing
