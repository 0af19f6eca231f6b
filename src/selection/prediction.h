#pragma once
// From a question (this algorithm, on that machine, with this many bytes) to the simulation that answers it.
#include <memory>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace horing {

// The ranks to simulate.
enum class Ranks : uint8_t {
  kOneNodeIfEqual,
  kOneNodeIfLikely,  // if a sample of the nodes is equal: for many quick predictions
  kAll,
};

struct Question {
  MachineModel machine;  // nodes that differ: all ranks are simulated
  Collective collective = Collective::kAllReduce;
  std::string algorithm = "ho_ring";
  uint64_t bytes = 1u << 30;  // of the whole vector
  Pipelining pipelining;
  Ranks ranks = Ranks::kOneNodeIfEqual;
  int64_t most_work = INT64_MAX;            // as SimulationInput::most_work
  uint64_t most_bytes = uint64_t{4} << 30;  // memory limit for the schedules
};

// A question with the schedules to simulate. A value; the schedules are shared by its copies.
struct Prediction {
  Question question;
  std::shared_ptr<const std::vector<Schedule>> schedules;
  Folding folding{Folding::Kind::kNone, 1, 1};
  SimulationResult result;
  Picoseconds bound = 0;

  // The time divided by the wire bound, at least 1. 0: no bound.
  double overBound() const {
    return bound > 0 ? static_cast<double>(result.time) / static_cast<double>(bound) : 0;
  }
};

// Errors: as for checkLinksKnown(), buildSchedule() and simulate(); kInvalidUsage: more than most_bytes, with the estimate.
Result<Prediction> predict(const Question& question, Record record);
// The same for another size, with the schedules of `before`.
Result<Prediction> predictAgain(const Prediction& before, uint64_t bytes, Record record);

}  // namespace horing
