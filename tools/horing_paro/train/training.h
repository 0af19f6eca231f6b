#pragma once
// Training as a function: data parallel, sharded by one strategy.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "horing_paro/train/adam.h"
#include "horing_paro/train/communicator.h"
#include "horing_paro/train/network.h"
#include "horing_paro/train/sharded_layers.h"

namespace horing::paro {

enum class Precision {
  kMixed,
  kFloat32,
  kFloat64
};                                    // kMixed: bfloat16 parameters and gradients, float32 state
enum class Work { kTrain, kReplay };  // kReplay: only the communication of a step, nothing is computed

struct TrainingSettings {
  NetworkShape shape;
  ShardingSettings sharding;
  Precision precision = Precision::kFloat32;
  Work work = Work::kTrain;
  Adam adam;
  int steps = 100;  // optimizer steps in all, those of a loaded checkpoint included
  std::string
      load_folder;  // of a checkpoint to go on from, of any strategy on any number of ranks; "": begin
  std::string save_folder;  // for a checkpoint of the last step; "": none
  int tokens = 16;          // per rank and micro-step
  int frozen_layers = 0;    // from layer 0 on
  uint64_t seed = 1;
};

struct TrainingStep {
  int number = 0;      // from 1, or from the one after a loaded checkpoint's
  double loss = 0;     // mean over the batch before the update, in nats; 0 in a replay
  double seconds = 0;  // since the step before, on this rank
};

struct TrainingReport {
  std::vector<TrainingStep> steps;
  horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
  horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
  horingParoEstimate_t estimate = HORING_PARO_ESTIMATE_INITIALIZER;
  uint64_t step_slow_bytes = 0,
           step_fast_bytes = 0;  // sent by this rank in an optimizer step, as the client counts
  Groups groups;
  std::vector<uint64_t> node_slow_bytes;  // sent by each group in an optimizer step
};

using Progress = std::function<void(const TrainingStep&)>;

// Collective. The batch of a step is ranks x micro-steps x tokens examples that depend on the seed alone. Errors: those of the client and
// of collectives; kInvalidArgument for settings that are none, a checkpoint that has all the steps already, and a loss that is not a
// number any more, at which training ends and nothing is saved.
Result<TrainingReport> train(horingComm_t comm, const TrainingSettings& settings, const Progress& progress);

}  // namespace horing::paro
