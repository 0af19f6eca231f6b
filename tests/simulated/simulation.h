#pragma once
// One scenario from its first call to its last: all ranks of a communicator in one thread, in virtual time.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/host/operation.h"
#include "expected.h"
#include "network.h"
#include "scenario.h"

namespace horing::simulated {

struct Outcome {
  // Empty on success: without a fault every rank has the right result of every operation; with one, each has the right result or an
  // error, and none waits for ever. Else a description of the failure, with each rank's progress.
  std::string failure;
  uint64_t steps = 0;  // slices of steps that engines ran to their end
  uint64_t events = 0;
  uint64_t fingerprint = 0;  // of all that happened, in order
  int64_t virtual_ns = 0;
  int errors = 0;  // ranks that ended with an error
};

class Simulation {
 public:
  // `expectation` must outlive it and may serve many, one after the other.
  Simulation(const Scenario& scenario, Expectation& expectation);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Outcome run();
  // Prints every event to stdout.
  void narrate() { narrates_ = true; }

 private:
  static constexpr size_t kGuard = 64;           // bytes before and after what a rank may write to
  static constexpr int64_t kLongestPeace = 100;  // messages from one break to the next
  static constexpr uint64_t kMostEvents = 100'000'000;

  struct Rank {
    std::vector<std::unique_ptr<Plan>> plans;
    std::vector<std::unique_ptr<HostOperation>> operations;  // by plan
    size_t at = 0;                                           // the operation of the scenario that it is in
    bool begun = false;                                      // ... or about to begin
    bool finished = false;
    Status error;
    Call call;
    std::vector<size_t> tables;  // of blocks that differ in size
    Bytes input, buffer;
  };
  struct Job {  // an operation, over all ranks
    std::vector<Bytes> inputs;
    // By position; null while the owner is not in the operation.
    std::vector<const std::byte*> shared_inputs;
    std::vector<std::byte*> shared_outputs;
    std::vector<Bytes> outputs;  // computed when the first rank is done
    int users = 0;
  };

  void bind();
  CollectiveCall collectiveCall(size_t operation) const;
  bool movesSomething(size_t operation) const;
  void countMessages();
  void poll(int32_t position);
  void begin(int32_t position);
  void complete(int32_t position);
  void leave(int32_t position);
  void finish(int32_t position, Status error);
  void checkOutput(int32_t position);
  void inflictFault();
  void narrate(const Event& event) const;
  std::string verdict();
  std::string progress() const;
  void fail(std::string what);
  Rank& rank(int32_t position) { return ranks_[static_cast<size_t>(position)]; }

  const Scenario& scenario_;
  Expectation& expectation_;
  Dice dice_;
  EventQueue events_;
  Network network_;
  std::vector<std::vector<Schedule>> schedules_;  // [plan][position]
  std::vector<Rank> ranks_;                       // by position, which is also what the network calls them
  std::vector<Job> jobs_;                         // by operation
  uint64_t fault_after_ = UINT64_MAX;             // messages
  int32_t odd_one_ = -1;                          // the rank that makes a different call
  uint64_t steps_ = 0;
  std::string failure_;
  bool narrates_ = false;
};

}  // namespace horing::simulated
