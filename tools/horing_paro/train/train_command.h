#pragma once
// `horing-paro train`.
#include <CLI/CLI.hpp>
#include <string>

#include "horing_paro/train/training.h"

namespace horing::paro {

struct TrainOptions {
  TrainingSettings training;
  std::string strategy = "auto";  // or "all": one after the other
  std::string precision = "fp32";
  std::string memory = "0";
  std::string bucket = "1MiB";
  int64_t batch = 0;  // tokens of an optimizer step; 0: what --tokens makes
  bool replay = false;
  std::string csv_path, svg_path, json_path;
};

void declareTrain(CLI::App& command, TrainOptions& options);

// Collective when started by a launcher; alone otherwise. Rank 0 prints and writes the files. Errors: the first one.
Status runTrain(const TrainOptions& options);

}  // namespace horing::paro
