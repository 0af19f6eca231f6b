#pragma once
// A job of rank_program under horing-run, and the events of its ranks.
#include <string>
#include <vector>

#include "program.h"

namespace horing::test {

// An event of one rank, see rank_program.cpp. `code` is a horingResult_t, `at_ms` is CLOCK_MONOTONIC.
struct Event {
  std::string name;
  int rank = -1;
  int code = -1;
  double at_ms = 0;
  double took_ms = 0;
  double cpu_ms = 0;
  std::string text;
};

inline constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5,
                     kRemoteError = 6, kTimeout = 8;

struct JobOptions {
  int ranks = 4;
  std::vector<std::string> run = {};          // more options of horing-run
  std::vector<std::string> words = {};        // of rank_program
  std::vector<std::string> environment = {};  // NAME=VALUE, of horing-run and all ranks
  std::vector<std::string> before = {};       // a command that runs the ranks: {"env", "-u", "NAME"}
};

// The command line of such a job. Ranks run on when one fails, and nothing outlives 100 s.
std::vector<std::string> jobCommand(const JobOptions& options);

// How many events of that name the running program has printed so far.
int countOf(const Program& program, const std::string& name);

// Events in the order in which they were printed.
std::vector<Event> eventsOf(const std::string& output);
// The event of that name and rank; a failed test and an empty event if there is none.
Event eventOf(const std::vector<Event>& events, const std::string& name, int rank);

// The first event of that rank that is an error, whatever it was doing.
Event failureOf(const std::vector<Event>& events, int rank);

struct JobOutcome {
  int code = 0;
  std::vector<Event> events;
  std::string everything;  // for messages
};
JobOutcome runJob(const JobOptions& options);
JobOutcome endOf(Program& program);
// A job in which `late` makes its collective number late_round only when all others have ended.
JobOutcome runWithLateCaller(JobOptions options, int late);

// Whether a text speaks of this rank: "rank 1" is not in "rank 12".
bool namesRank(const std::string& text, int rank);

// Sets the switch port of a node, on its first rail, "down" or "up" in the emulated network of that horing-run: what
// pulling the cable and plugging it in again is. False, with a failed test, where that cannot be done.
bool setLink(pid_t horing_run, int node, const std::string& state);

// Destroys all TCP sockets of that rank's emulated node, like `ss -K`, and in no other network. Waits until there are at least
// `least`, listening ones included. False, with a failed test, if that is impossible.
bool destroySockets(pid_t horing_run, int rank, int least);

// A folder in shared memory for one test. Removed with its contents.
class ShmFolder {
 public:
  ShmFolder();
  ~ShmFolder();
  ShmFolder(const ShmFolder&) = delete;
  ShmFolder& operator=(const ShmFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string variable() const { return "HORING_SHM_DIR=" + path_; }
  std::vector<std::string> names() const;

 private:
  std::string path_;
};

}  // namespace horing::test
