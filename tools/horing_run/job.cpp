#include "horing_run/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "horing_run/leftovers.h"
#include "horing_run/spawn.h"
#include "topology/core_sharing.h"
#include "topology/cpu_mask.h"

namespace horing::run {

namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

// How long a rank may take to vanish after SIGKILL before horing-run stops waiting for it.
constexpr std::chrono::seconds kKillTimeout{10};
// All ranks of a communicator learn at the same time that it has failed. Those that are ended meanwhile leave no record, and take what
// others wait for with them, who then blame a process that is lost.
constexpr std::chrono::milliseconds kTimeToReport{1000};
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool endsTheRun(int signal_number) {
  return signal_number != SIGUSR1 && signal_number != SIGUSR2;
}

// The signal that ended a process, or what a shell started in it, as far as its exit code tells; 0: none.
int signalOf(int code) {
  return code > 128 && code < 128 + NSIG ? code - 128 : 0;
}

}  // namespace

BlockedSignals::BlockedSignals() {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int each : kForwarded) sigaddset(&blocked, each);
  sigaddset(&blocked, SIGTSTP);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &previous_);
  fd_ = Fd(signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
  // A reader that closes the output must not end the run.
  signal(SIGPIPE, SIG_IGN);
}

BlockedSignals::~BlockedSignals() {
  sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

int BlockedSignals::next() const {
  signalfd_siginfo info{};
  return read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)
             ? static_cast<int>(info.ssi_signo)
             : 0;
}

Job::Job(const Options& options, const BlockedSignals& signals, EmulatedNetwork* network)
    : options_(options),
      signals_(signals),
      network_(network),
      placements_(placeRanks(options.ranks_of_node)) {}

Job::~Job() {
  // A rank's children may outlive it; its process group still has its number, since no rank was reaped yet.
  signalAll(SIGKILL);
  for (const Rank& rank : ranks_) kill(-rank.pid, SIGKILL);
  std::vector<pid_t> groups;
  for (const Rank& rank : ranks_) {
    waitpid(rank.pid, nullptr, rank.ended ? 0 : WNOHANG);
    groups.push_back(rank.pid);
  }
  // Emulated nodes have their own memory, which ends with them.
  if (!network_) removeLeftovers(groups);
}

Status Job::start() {
  HORING_ASSIGN(guard_, Guard::start());
  HORING_ASSIGN(rendezvous_, makeRendezvous(network_));
  if (options_.bind_to == BindTo::kCore) HORING_TRY(chooseCores());
  for (const Placement& place : placements_) {
    const Status started = startRank(place, rendezvous_);
    if (!started.ok())
      return makeStatus(started.code(), "rank %d: %s", place.rank, started.message().c_str());
  }
  started_at_ = Clock::now();
  if (options_.timeout_s > 0) timeout_at_ = afterStart(options_.timeout_s);
  scheduleRateChange();
  return {};
}

Status Job::chooseCores() {
  const std::vector<Cpus> cores = byCore(cpusOfThisThread());
  if (cores.empty())
    return makeStatus(Code::kSystemError, "--bind-to core: cannot find out which CPUs this process may use");
  std::vector<int32_t> local_ranks;
  for (const Placement& place : placements_) local_ranks.push_back(place.local_rank);
  for (const size_t core : coresOfRanks(local_ranks, cores.size())) cpus_.push_back(cores[core]);
  return {};
}

Status Job::startRank(const Placement& place, const Rendezvous& rendezvous) {
  SpawnSpec spec{.command = options_.command,
                 .environment = rankEnvironment(place, options_.ranks, rendezvous, network_),
                 .node = network_ ? &network_->node(place.node) : nullptr,
                 .cpus = cpus_.empty() ? Cpus() : cpus_[static_cast<size_t>(place.rank)],
                 .guard = network_ ? nullptr : guard_.get(),
                 .signal_mask = signals_.previous()};
  Fd output;
  Fd error;
  if (options_.output == Output::kTagged) {
    HORING_ASSIGN(output, output_.open(place.rank, STDOUT_FILENO));
    HORING_ASSIGN(error, output_.open(place.rank, STDERR_FILENO));
    spec.output = output.get();
    spec.error = error.get();
  }
  // Rank 0 may read a pipe or a file. It does not get a terminal: ranks in separate process groups are stopped when they read it.
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (place.rank != 0 || isatty(STDIN_FILENO)) spec.input = nothing.get();
  HORING_ASSIGN(const pid_t pid, spawn(spec));
  ranks_.push_back({.place = place, .pid = pid});
  return {};
}

int Job::wait() {
  while (running() > 0) {
    waitForNews();
    for (int signal_number = signals_.next(); signal_number != 0; signal_number = signals_.next())
      handleSignal(signal_number);
    output_.forward();
    collectEnded();
    checkDeadlines();
    if (Clock::now() >= give_up_at_) {
      std::fprintf(stderr, "horing-run: giving up on %s: still there %lld s after SIGKILL\n",
                   runningRanks().c_str(), static_cast<long long>(kKillTimeout.count()));
      break;
    }
  }
  output_.finish();
  return exit_code_;
}

void Job::waitForNews() {
  std::vector<pollfd> descriptors{{signals_.fd(), POLLIN, 0}};
  output_.addTo(descriptors);
  const Clock::time_point deadline = std::min({timeout_at_, end_at_, kill_at_, give_up_at_, rate_change_at_});
  int wait_ms = -1;
  if (deadline != Clock::time_point::max()) {
    const auto left = duration_cast<milliseconds>(deadline - Clock::now()).count() + 1;
    wait_ms = static_cast<int>(std::clamp<long long>(left, 0, 60000));
  }
  poll(descriptors.data(), descriptors.size(), wait_ms);
}

void Job::handleSignal(int signal_number) {
  if (signal_number == SIGCHLD) return;
  if (signal_number == SIGTSTP) return pause();
  if (!endsTheRun(signal_number)) {
    signalAll(signal_number);
    return;
  }
  if (ending_) {  // a second request ends at once
    kill_at_ = Clock::now();
    return;
  }
  std::fprintf(stderr, "horing-run: %s: ending %d ranks\n", strsignal(signal_number), running());
  endAll(128 + signal_number, signal_number);
}

// Ctrl-Z. Ranks are in separate process groups, which do not get the terminal's signal: they are stopped first and continued with this
// process, and no deadline of the run passes meanwhile.
void Job::pause() {
  const Clock::time_point stopped_at = Clock::now();
  signalAll(SIGSTOP);
  raise(SIGSTOP);
  signalAll(SIGCONT);
  const Clock::duration away = Clock::now() - stopped_at;
  started_at_ += away;
  for (Clock::time_point* const deadline :
       {&timeout_at_, &end_at_, &kill_at_, &give_up_at_, &rate_change_at_})
    if (*deadline != Clock::time_point::max()) *deadline += away;
}

void Job::collectEnded() {
  std::vector<const Rank*> failed;
  for (Rank& rank : ranks_) {
    if (rank.ended) continue;
    siginfo_t info{};
    // WNOWAIT: as long as a rank is not reaped, the number of its process group stays its own.
    if (waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
      continue;
    rank.ended = true;
    rank.code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    if (rank.code != 0) failed.push_back(&rank);
  }
  if (!failed.empty()) noteFailures(failed);
}

void Job::noteFailures(const std::vector<const Rank*>& failed) {
  const bool is_consequence = ending_ || end_at_ != Clock::time_point::max();
  if (is_consequence && options_.on_failure == OnFailure::kEndAll) return;
  // If several ended at the same time, a rank killed by a signal is the likelier cause.
  const Rank& first = **std::max_element(failed.begin(), failed.end(), [](const Rank* a, const Rank* b) {
    return (signalOf(a->code) != 0) < (signalOf(b->code) != 0);
  });
  if (exit_code_ == 0) exit_code_ = first.code;
  if (options_.on_failure == OnFailure::kKeepGoing) {
    for (const Rank* rank : failed) std::fprintf(stderr, "horing-run: %s\n", describe(*rank).c_str());
    return;
  }
  std::fprintf(stderr, "horing-run: %s; ending the other ranks (%d still run)\n", describe(first).c_str(),
               running());
  end_at_ = Clock::now() + kTimeToReport;
}

void Job::checkDeadlines() {
  const Clock::time_point now = Clock::now();
  if (now >= rate_change_at_) changeRate();
  if (now >= timeout_at_) {
    timeout_at_ = Clock::time_point::max();
    std::fprintf(stderr, "horing-run: not done after %g s: ending %s\n", options_.timeout_s,
                 runningRanks().c_str());
    endAll(kTimeoutExitCode, SIGTERM);
  }
  if (now >= end_at_) {
    end_at_ = Clock::time_point::max();
    endAll(exit_code_, SIGTERM);
  }
  if (now >= kill_at_) {
    kill_at_ = Clock::time_point::max();
    give_up_at_ = now + kKillTimeout;
    if (running() > 0) std::fprintf(stderr, "horing-run: killing %s\n", runningRanks().c_str());
    signalAll(SIGKILL);
  }
}

Job::Clock::time_point Job::afterStart(double seconds) const {
  return started_at_ + duration_cast<Clock::duration>(duration<double>(seconds));
}

void Job::scheduleRateChange() {
  const std::vector<RateChange>& changes = options_.rate_changes;
  rate_change_at_ = rate_changes_done_ < changes.size() ? afterStart(changes[rate_changes_done_].at_s)
                                                        : Clock::time_point::max();
}

void Job::changeRate() {
  const RateChange& change = options_.rate_changes[rate_changes_done_++];
  const Status changed = network_->setRate(change.node, change.rate_mbit);
  if (changed.ok()) {
    std::fprintf(stderr, "horing-run: after %g s: the links of node %d have %d Mbit/s\n", change.at_s,
                 change.node, change.rate_mbit);
  } else {
    std::fprintf(stderr, "horing-run: %s\n", changed.message().c_str());
    endAll(kRateChangeExitCode, SIGTERM);
  }
  scheduleRateChange();
}

void Job::endAll(int code, int signal_number) {
  if (exit_code_ == 0) exit_code_ = code;
  if (ending_) return;
  ending_ = true;
  kill_at_ = Clock::now() + duration_cast<Clock::duration>(duration<double>(options_.grace_s));
  signalAll(signal_number);
}

void Job::signalAll(int signal_number) {
  for (const Rank& rank : ranks_)
    if (!rank.ended) kill(-rank.pid, signal_number);
}

int Job::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.ended; }));
}

std::string Job::describe(const Rank& rank) const {
  const std::string where = network_ ? " on node " + std::to_string(rank.place.node) : "";
  const std::string who = "rank " + std::to_string(rank.place.rank) + where;
  const int signal_number = signalOf(rank.code);
  if (signal_number == 0) return who + " ended with exit code " + std::to_string(rank.code);
  return who + " was ended by signal " + std::to_string(signal_number) + " (" + strsignal(signal_number) +
         ")";
}

std::string Job::runningRanks() const {
  std::string list;
  int listed = 0;
  for (const Rank& rank : ranks_) {
    if (rank.ended) continue;
    if (++listed > 16) return list + ", ...";
    list += (list.empty() ? "rank " : ", ") + std::to_string(rank.place.rank);
  }
  return list;
}

}  // namespace horing::run
