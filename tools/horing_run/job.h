#pragma once
// The ranks of a run, from the first one's start to the last one's end.
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "horing_run/core_binding.h"
#include "horing_run/emulated_network.h"
#include "horing_run/guard.h"
#include "horing_run/options.h"
#include "horing_run/placement.h"
#include "horing_run/rank_environment.h"
#include "horing_run/tagged_output.h"

namespace horing::run {

// Exit code when --timeout ended the run.
constexpr int kTimeoutExitCode = 124;
// When --rate-at failed, as for nodes that cannot be made.
constexpr int kRateChangeExitCode = 3;

// Blocks the signals that horing-run forwards, so it must exist before anything is started; restores them in the destructor.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // The signal mask from before.
  const sigset_t& previous() const { return previous_; }
  // Readable when one has arrived.
  int fd() const { return fd_.get(); }
  // The next one that has arrived; 0 if none.
  int next() const;

 private:
  sigset_t previous_{};
  Fd fd_;
};

// A resource: no rank survives it. One thread; `signals` and `network` outlive it.
class Job {
 public:
  // `network` is null when the ranks run on this machine as it is.
  Job(const Options& options, const BlockedSignals& signals, EmulatedNetwork* network);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Starts every rank.
  Status start();
  // Waits for all ranks, forwarding signals and output; returns the exit code of the run.
  int wait();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    Placement place;
    pid_t pid = -1;
    bool ended = false;
    // Exit code, or 128 + signal.
    int code = 0;
  };

  Status chooseCores();
  Status startRank(const Placement& place, const Rendezvous& rendezvous);
  void waitForNews();
  void handleSignal(int signal_number);
  void pause();
  void collectEnded();
  void noteFailures(const std::vector<const Rank*>& failed);
  void checkDeadlines();
  Clock::time_point afterStart(double seconds) const;
  void scheduleRateChange();
  void changeRate();
  // SIGTERM now, SIGKILL after the grace; `code` becomes that of the run unless it has one.
  void endAll(int code, int signal_number);
  void signalAll(int signal_number);
  int running() const;
  std::string describe(const Rank& rank) const;
  std::string runningRanks() const;

  const Options& options_;
  const BlockedSignals& signals_;
  EmulatedNetwork* network_;
  std::vector<Placement> placements_;
  std::vector<Cpus> cpus_;  // the CPUs that ranks are bound to; empty: unbound
  std::unique_ptr<Guard> guard_;
  Rendezvous rendezvous_;
  TaggedOutput output_;
  std::vector<Rank> ranks_;
  Clock::time_point started_at_;
  Clock::time_point timeout_at_ = Clock::time_point::max();
  // The time of the next rate change.
  Clock::time_point rate_change_at_ = Clock::time_point::max();
  size_t rate_changes_done_ = 0;
  // Set when a rank has failed: the others may report it until then.
  Clock::time_point end_at_ = Clock::time_point::max();
  // Set when the ranks are being ended.
  Clock::time_point kill_at_ = Clock::time_point::max();
  Clock::time_point give_up_at_ = Clock::time_point::max();
  bool ending_ = false;
  int exit_code_ = 0;
};

}  // namespace horing::run
