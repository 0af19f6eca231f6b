#include "horing_paro/train/train_command.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/quantity.h"
#include "common/text_file.h"
#include "horing_paro/plan.h"
#include "horing_paro/train/communicator.h"
#include "horing_paro/train/loss_chart.h"

namespace horing::paro {

namespace {

constexpr const char* kFooter = R"(Examples
  Alone:
      horing-paro train
  Eight ranks on two emulated nodes with 1000 Mbit/s between them, sharded by IIG:
      horing-run -n 8 --nodes 2 --rate 1000 -- horing-paro train --strategy IIG --steps 100 --svg loss.svg
  Every strategy in turn; their loss is the same:
      horing-run -n 4 --nodes 2 --rate 1000 -- horing-paro train --strategy all --precision fp64 --csv loss.csv
  Save, and go on with another strategy on another number of ranks; the loss goes on as if nothing had happened:
      horing-run -n 4 -- horing-paro train --strategy GGG --batch 64 --steps 50 --save checkpoint
      horing-run -n 8 --nodes 2 -- horing-paro train --strategy IIG --batch 64 --steps 100 --load checkpoint
  Only what a step communicates, with 34 MB of model state:
      horing-run -n 16 --nodes 4 --rate 100 -- horing-paro train --strategy GGG --replay --precision mixed --hidden 1024 --layers 2
          --accumulate 10 --steps 3

The model reads bytes of a play by Shakespeare and predicts the next one; loss is in nats per byte, 5.5 for guessing.
A batch depends on the seed and on its size alone: --batch N learns the same whatever the number of ranks and micro-steps.)";

// The strategies to run, by name.
Result<std::vector<horingParoStrategy_t>> strategiesOf(const std::string& name) {
  std::vector<horingParoStrategy_t> strategies;
  if (name == "all") {
    for (int i = 0; i < horingParoNumStrategies; ++i)
      strategies.push_back(static_cast<horingParoStrategy_t>(i));
    return strategies;
  }
  strategies.resize(1);
  HORING_TRY(statusOfParo(horingParoFindStrategy(name.c_str(), &strategies[0])));
  return strategies;
}

Precision precisionOf(const std::string& name) {
  return name == "mixed" ? Precision::kMixed : name == "fp64" ? Precision::kFloat64 : Precision::kFloat32;
}

Status setTokens(int64_t batch, int ranks, TrainingSettings& training) {
  if (batch == 0) return {};
  const int64_t parts = static_cast<int64_t>(ranks) * training.sharding.micro_steps;
  if (batch % parts != 0 || batch / parts > (1 << 20))
    return makeStatus(Code::kInvalidArgument,
                      "--batch %lld cannot be shared out among %d ranks with %d micro-steps each: it has to "
                      "be a multiple of "
                      "%lld",
                      static_cast<long long>(batch), ranks, training.sharding.micro_steps,
                      static_cast<long long>(parts));
  training.tokens = static_cast<int>(batch / parts);
  return {};
}

Result<TrainingSettings> settingsOf(const TrainOptions& options, int ranks) {
  TrainingSettings training = options.training;
  training.precision = precisionOf(options.precision);
  training.work = options.replay ? Work::kReplay : Work::kTrain;
  HORING_ASSIGN(training.sharding.memory_limit, parseBytes(options.memory));
  HORING_ASSIGN(training.sharding.bucket_bytes, parseBytes(options.bucket));
  HORING_TRY(setTokens(options.batch, ranks, training));
  return training;
}

std::string nameOf(horingParoStrategy_t strategy) {
  const horingParoStrategyInfo_t* row = nullptr;
  return horingParoGetStrategy(strategy, &row) == horingSuccess ? row->name : "?";
}

double medianSeconds(const std::vector<TrainingStep>& steps) {
  std::vector<double> seconds;
  for (const TrainingStep& step : steps) seconds.push_back(step.seconds);
  if (seconds.size() > 1) seconds.erase(seconds.begin());  // connections are made in the first
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

// The result of one strategy.
struct Run {
  std::string strategy;
  TrainingReport report;
};

// "2 x 4 ranks", "groups of 4, 3".
std::string shapeText(const TrainingReport& report) {
  if (report.info.ranksPerGroup > 0)
    return formatString("%d x %d ranks", report.info.groups, report.info.ranksPerGroup);
  std::string text;
  for (const int size : report.groups.sizes)
    text += (text.empty() ? "groups of " : ", ") + std::to_string(size);
  return text;
}

// Only rank 0 prints.
class Talk {
 public:
  Talk(Place place, const TrainingSettings& training) : place_(place), training_(training) {}

  void begin() const {
    if (place_.rank != 0) return;
    const int64_t batch =
        static_cast<int64_t>(place_.ranks) * training_.sharding.micro_steps * training_.tokens;
    std::printf(
        "%zu parameters in %d layers; %d rank%s x %d micro-step%s x %d tokens = %lld tokens in an optimizer "
        "step%s\n",
        training_.shape.parameters(), training_.shape.layers(), place_.ranks, place_.ranks == 1 ? "" : "s",
        training_.sharding.micro_steps, training_.sharding.micro_steps == 1 ? "" : "s", training_.tokens,
        static_cast<long long>(batch),
        training_.work == Work::kReplay ? "; replay: nothing is computed" : "");
    std::fflush(stdout);
  }

  Progress progress(const std::string& strategy) const {
    if (place_.rank != 0) return nullptr;
    return [this, strategy](const TrainingStep& step) {
      const int every = std::max(1, training_.steps / 10);
      if (step.number != 1 && step.number % every != 0 && step.number != training_.steps) return;
      const double tokens =
          static_cast<double>(place_.ranks) * training_.sharding.micro_steps * training_.tokens;
      const std::string loss = training_.work == Work::kReplay ? "" : formatString("loss %.4f   ", step.loss);
      std::printf("%s step %5d of %d   %s%8.0f tokens/s   %s\n", strategy.c_str(), step.number,
                  training_.steps, loss.c_str(), tokens / step.seconds, secondsText(step.seconds).c_str());
      std::fflush(stdout);
    };
  }

  void end(const Run& run) const {
    if (place_.rank != 0) return;
    const TrainingReport& report = run.report;
    const std::vector<uint64_t>& sent = report.node_slow_bytes;
    const bool even = report.info.ranksPerGroup > 0;
    std::printf("%s on %s: a step takes %s; state %s per rank%s; %s %s per step\n", run.strategy.c_str(),
                shapeText(report).c_str(), secondsText(medianSeconds(report.steps)).c_str(),
                bytesText(static_cast<double>(report.info.largestMemoryBytes)).c_str(),
                even ? "" : " at most", even ? "each node sends" : "the node that sends the most sends",
                bytesText(static_cast<double>(*std::ranges::max_element(sent))).c_str());
    std::fflush(stdout);
  }

 private:
  Place place_;
  const TrainingSettings& training_;
};

// A row per step, a column per strategy.
std::string csvOf(const std::vector<Run>& runs) {
  std::string text = "step";
  for (const Run& run : runs) text += "," + run.strategy + "_loss," + run.strategy + "_seconds";
  text += "\n";
  for (size_t i = 0; i < runs[0].report.steps.size(); ++i) {
    text += formatString("%d", runs[0].report.steps[i].number);
    for (const Run& run : runs) {
      const TrainingStep& step = run.report.steps[i];
      text += formatString(",%.17g,%.6g", step.loss, step.seconds);
    }
    text += "\n";
  }
  return text;
}

nlohmann::json jsonOf(const Run& run) {
  const TrainingReport& report = run.report;
  nlohmann::json losses = nlohmann::json::array(), seconds = nlohmann::json::array();
  for (const TrainingStep& step : report.steps) losses.push_back(step.loss), seconds.push_back(step.seconds);
  return {{"strategy", run.strategy},
          {"nodes", report.info.groups},
          {"ranks", report.info.ranksPerGroup},
          {"group_sizes", report.groups.sizes},
          {"slow_bytes_per_node_and_step", report.node_slow_bytes},
          {"largest_state_bytes", report.info.largestMemoryBytes},
          {"parameters", report.info.params},
          {"trainable", report.info.trainable},
          {"buckets", report.info.numBuckets},
          {"median_step_seconds", medianSeconds(report.steps)},
          {"first_step", report.steps.front().number},
          {"losses", losses},
          {"seconds", seconds},
          {"state_bytes", report.usage.stateBytes},
          {"formula_state_bytes", report.estimate.memoryBytes},
          {"gathered_bytes", report.usage.gatheredBytes},
          {"gradient_buffer_bytes", report.usage.gradBufferBytes},
          {"slow_bytes_per_rank_and_step", report.step_slow_bytes},
          {"formula_slow_bytes_per_rank_and_step", report.estimate.slowBytes},
          {"fast_bytes_per_rank_and_step", report.step_fast_bytes},
          {"formula_fast_bytes_per_rank_and_step", report.estimate.fastBytes}};
}

// Checks output files before training. Rank 0 writes all files and tells the others the result, since they would wait for it otherwise.
Status checkFiles(const TrainOptions& options, horingComm_t comm, int rank) {
  std::array<char, 1024> fault{};
  if (rank == 0)
    for (const std::string& path : {options.csv_path, options.svg_path, options.json_path})
      if (const Status status = path.empty() ? Status() : checkWritable(path); !status.ok())
        status.message().copy(fault.data(), fault.size() - 1);
  HORING_TRY(statusOfHoring(
      horingBroadcast(fault.data(), fault.data(), fault.size(), horingInt8, 0, comm, nullptr)));
  return fault[0] == 0 ? Status() : makeStatus(Code::kSystemError, "rank 0: %s", fault.data());
}

Status writeFiles(const TrainOptions& options, const std::vector<Run>& runs) {
  if (!options.csv_path.empty()) HORING_TRY(writeFile(options.csv_path, csvOf(runs)));
  if (!options.svg_path.empty())
    HORING_TRY(
        writeFile(options.svg_path, lossChart(runs[0].report.steps, "Loss, sharded by " + runs[0].strategy)));
  if (options.json_path.empty()) return {};
  nlohmann::json document = nlohmann::json::array();
  for (const Run& run : runs) document.push_back(jsonOf(run));
  return writeFile(options.json_path, document.dump(1) + "\n");
}

void declareModel(CLI::App& command, TrainOptions& options) {
  NetworkShape& shape = options.training.shape;
  const auto size = CLI::Range(1, 1 << 16);
  command.add_option("--context", shape.context, "Bytes that the model sees")
      ->check(size)
      ->capture_default_str();
  command.add_option("--embedding", shape.embedding, "Elements per byte")->check(size)->capture_default_str();
  command.add_option("--hidden", shape.hidden, "Width of a hidden layer")->check(size)->capture_default_str();
  command.add_option("--layers", shape.hidden_layers, "Hidden layers")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--freeze", options.training.frozen_layers, "Do not train this many of the lowest layers")
      ->check(CLI::Range(0, 1001))
      ->capture_default_str();
}

}  // namespace

void declareTrain(CLI::App& command, TrainOptions& options) {
  TrainingSettings& training = options.training;
  const auto count = CLI::Range(1, 1 << 20);
  command
      .add_option("--strategy", options.strategy,
                  "NNN to GGG, ddp, zero-1, ..., auto; or all, one after the other")
      ->capture_default_str();
  command
      .add_option(
          "--memory", options.memory,
          "Memory that a rank has for model state; auto chooses among the strategies that fit. 0: no limit")
      ->capture_default_str();
  command
      .add_option("--steps", training.steps, "Optimizer steps, including those before a loaded checkpoint")
      ->check(count)
      ->capture_default_str();
  command.add_option("--save", training.save_folder, "Write a checkpoint of the last step to this folder");
  command.add_option("--load", training.load_folder,
                     "Continue from a checkpoint, saved by any strategy on any number of ranks");
  command.add_option("--accumulate", training.sharding.micro_steps, "Micro-steps per optimizer step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  CLI::Option* tokens = command.add_option("--tokens", training.tokens, "Tokens of each rank per micro-step")
                            ->check(count)
                            ->capture_default_str();
  command.add_option("--batch", options.batch, "Tokens of all ranks per optimizer step, shared out evenly")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->excludes(tokens);
  command
      .add_option("--precision", options.precision, "Parameters and gradients in bf16 (mixed), fp32 or fp64")
      ->check(CLI::IsMember({"mixed", "fp32", "fp64"}))
      ->capture_default_str();
  declareModel(command, options);
  command.add_option("--learning-rate", training.adam.learning_rate, "Learning rate of Adam")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--seed", training.seed, "Seed of parameters and batches")->capture_default_str();
  command.add_option("--bucket", options.bucket, "Bytes moved together; 0: the library's default")
      ->capture_default_str();
  command.add_flag("--replay", options.replay, "Compute nothing: only the communication of each step");
  command.add_option("--csv", options.csv_path, "Write loss and time of every step to this file");
  command.add_option("--svg", options.svg_path, "Draw the loss to this file");
  command.add_option("--json", options.json_path, "Write everything that was measured to this file");
  command.footer(kFooter);
}

Status runTrain(const TrainOptions& options) {
  HORING_ASSIGN(const std::vector<horingParoStrategy_t> strategies, strategiesOf(options.strategy));
  if (strategies.size() > 1 && !options.training.save_folder.empty())
    return makeStatus(Code::kInvalidArgument,
                      "--save with --strategy all would keep the last one's checkpoint: name one strategy");
  HORING_ASSIGN(const Communicator comm, joinJob());
  HORING_ASSIGN(const Place place, placeIn(comm.get()));
  HORING_ASSIGN(TrainingSettings training, settingsOf(options, place.ranks));
  HORING_TRY(checkFiles(options, comm.get(), place.rank));
  const Talk talk(place, training);
  talk.begin();
  std::vector<Run> runs;
  for (horingParoStrategy_t strategy : strategies) {
    training.sharding.strategy = strategy;
    const std::string shown = strategy == horingParoAuto ? "auto" : nameOf(strategy);
    HORING_ASSIGN(TrainingReport report, train(comm.get(), training, talk.progress(shown)));
    const std::string name = nameOf(report.info.strategy);
    runs.push_back({name, std::move(report)});
    talk.end(runs.back());
  }
  return place.rank == 0 ? writeFiles(options, runs) : Status();
}

}  // namespace horing::paro
