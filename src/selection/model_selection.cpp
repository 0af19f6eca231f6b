#include "selection/model_selection.h"

#include <algorithm>
#include <set>

#include "algorithms/catalogue.h"
#include "schedule/link_slots.h"
#include "selection/selection.h"
#include "selection/table_words.h"

namespace horing {

namespace {

// Bytes of the whole vector. The choice for the largest size also serves larger vectors, so its blocks must be large, too.
constexpr uint64_t kLeastPredictedBytes = 256, kMostPredictedBytes = 16 << 20,
                   kMostPredictedBlock = 256 << 10;
constexpr int64_t kMostPredictedWork = 300'000;  // of one simulation: Question::most_work

std::vector<uint64_t> sizesOf(const SelectionQuestion& asked, Collective collective) {
  std::set<uint64_t> sizes(asked.sizes.begin(), asked.sizes.end());
  if (asked.standing)
    for (const SelectionRow& row : asked.standing->rows())
      if (row.fits(collective, asked.job) && row.most_bytes >= asked.sizes.front() &&
          row.most_bytes <= asked.sizes.back())
        sizes.insert(row.most_bytes);
  return {sizes.begin(), sizes.end()};
}

std::string commented(const std::string& described) {
  std::string text;
  for (size_t at = 0; at < described.size();) {
    const size_t end = described.find('\n', at);
    text += "#   " + described.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

// The standing choice holds against a prediction that is faster by less than predictions err (errorFactor).
std::string timesText(const ModelChoice& choice) {
  const bool is_predicted = choice.time > 0;
  std::string text = is_predicted ? formatString("%.1f us", toMicroseconds(choice.time)) : "not predicted";
  if (!choice.next) return text;
  const bool is_faster = is_predicted && choice.next_time < choice.time;
  return text + formatString("; %s %s, %.1f us",
                             is_faster ? "kept, as the prediction errs by more, against" : "next",
                             choice.next->name, toMicroseconds(choice.next_time));
}

// A small message between two ranks of a node takes this long only if other programs use the cores.
constexpr double kMostNearUs = 250;

Status checkUndisturbed(const MachineModel& machine) {
  const double near_us = 2 * machine.step_us + machine.inside.latency_us;
  if (machine.links == Links::kBetween || near_us <= kMostNearUs) return {};
  return makeStatus(
      Code::kInvalidArgument,
      "the description of the machine has %.0f us for a small message inside a node: other programs "
      "had its cores while it was measured; measure again (HORING_SELECTION=model believes it)",
      near_us);
}

}  // namespace

JobShape jobOn(const MachineModel& machine) {
  return {machine.nodes, machine.ranks_per_node,
          sharesCores(machine) ? RanksPerCore::kMore : RanksPerCore::kAtMostOne};
}

Question questionOf(const Config& config, const MachineModel& machine) {
  Question question;
  question.machine = machine;
  question.most_work = kMostPredictedWork;
  question.ranks = Ranks::kOneNodeIfLikely;
  Pipelining& pipelining = question.pipelining;
  pipelining.window = static_cast<int32_t>(config.window);
  pipelining.slice_bytes = static_cast<size_t>(config.slice_bytes);
  pipelining.slots_inside = static_cast<int32_t>(config.slots);
  pipelining.slots_between = slotsBetween(static_cast<int32_t>(config.socket_slots), pipelining.slots_inside,
                                          pipelining.slice_bytes, machine.ranks());
  return question;
}

Result<std::vector<PredictedTimes>> predictTimes(const Question& of, Collective collective,
                                                 const std::vector<uint64_t>& sizes, const Deadline* until) {
  std::vector<PredictedTimes> all;
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    if (!algorithm.has(collective) || algorithm.reachesPeers()) continue;
    PredictedTimes& predicted = all.emplace_back(PredictedTimes{&algorithm, {}});
    predicted.times.resize(sizes.size());
    Question question = of;
    question.collective = collective;
    question.algorithm = algorithm.name;
    question.bytes = sizes.front();
    Result<Prediction> prediction = predict(question, Record::kNothing);
    for (size_t i = 0; i < sizes.size() && prediction.ok(); ++i) {
      if (until && until->passed())
        return makeStatus(Code::kTimeout, "predicting took longer than this job can wait for");
      if (i > 0) prediction = predictAgain(prediction.value(), sizes[i], Record::kNothing);
      if (prediction.ok()) predicted.times[i] = prediction.value().result.time;
    }
  }
  return all;
}

const PredictedTimes* fastestBut(const Algorithm* chosen, const std::vector<PredictedTimes>& predicted,
                                 size_t size) {
  const PredictedTimes* fastest = nullptr;
  for (const PredictedTimes& each : predicted)
    if (each.algorithm != chosen && each.times[size] > 0 &&
        (!fastest || each.times[size] < fastest->times[size]))
      fastest = &each;
  return fastest;
}

Result<std::vector<ModelChoice>> chooseByModel(const SelectionQuestion& asked, Collective collective) {
  const MachineModel& machine = asked.question.machine;
  const std::vector<uint64_t> sizes = sizesOf(asked, collective);
  HORING_ASSIGN(const std::vector<PredictedTimes> predicted,
                predictTimes(asked.question, collective, sizes, asked.until));
  const Shape shape{machine.nodes, machine.ranks_per_node, machine.rails};
  std::vector<ModelChoice> choices;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Algorithm* standing =
        asked.standing ? asked.standing->find(collective, asked.job, sizes[i]) : nullptr;
    ModelChoice fastest{sizes[i], nullptr, 0}, stands{sizes[i], standing, 0};
    if (const PredictedTimes* const first = fastestBut(nullptr, predicted, i))
      fastest = {sizes[i], first->algorithm, first->times[i]};
    for (const auto& [algorithm, times] : predicted)
      if (algorithm == standing) stands.time = times[i];
    if (!standing && !fastest.algorithm)
      return makeStatus(Code::kInvalidArgument, "no algorithm can run %s of %s here",
                        collectiveName(collective), tableBytesText(sizes[i]).c_str());
    const double most_time = errorFactor(machine, sizes[i]) * static_cast<double>(fastest.time);
    // Tables do not know whether groups differ in size.
    const bool can_run = standing && (standing->any_sizes || !shapeFor(*standing, shape).rails);
    const bool keeps = standing && (stands.time == 0 ? can_run || !fastest.algorithm
                                                     : static_cast<double>(stands.time) <= most_time);
    ModelChoice& choice = choices.emplace_back(keeps ? stands : fastest);
    if (const PredictedTimes* const next = fastestBut(choice.algorithm, predicted, i))
      choice.next = next->algorithm, choice.next_time = next->times[i];
  }
  return choices;
}

Result<std::string> selectionText(const SelectionQuestion& asked) {
  const MachineModel& machine = asked.question.machine;
  std::string text = "# predicted, for:\n" + commented(describeMachine(machine));
  text += "# collective   groups  ranks of each  ranks per core  up to bytes  algorithm\n";
  for (const Collective collective : asked.collectives) {
    HORING_ASSIGN(const std::vector<ModelChoice> choices, chooseByModel(asked, collective));
    for (size_t i = 0; i < choices.size(); ++i) {
      const bool is_last = i + 1 == choices.size();
      if (!is_last && choices[i + 1].algorithm == choices[i].algorithm) continue;
      text += formatString("%-14s %-7d %-14d %-15s %-12s %s  # %s\n", collectiveName(collective),
                           machine.nodes, machine.ranks_per_node, ranksPerCoreText(RanksPerCore::kAny),
                           is_last ? "*" : tableBytesText(choices[i].bytes).c_str(),
                           choices[i].algorithm->name, timesText(choices[i]).c_str());
    }
  }
  return text;
}

bool selectsByModel(const Config& config) {
  return config.selection == kSelectionByModel ||
         (config.selection == kSelectionAuto &&
          (config.calibrate == kCalibrateAlways || readsMachine(config)));
}

bool readsMachine(const Config& config) {
  return config.calibrate != kCalibrateOnce && config.calibrate != kCalibrateNever &&
         config.calibrate != kCalibrateAlways;
}

Status modelNeedsMachine() {
  return makeStatus(
      Code::kInvalidUsage,
      "HORING_SELECTION=model needs to know the machine: leave HORING_CALIBRATE at auto to have it measured "
      "while a job starts, or set it to a file that 'horing-tune -o FILE' wrote");
}

Result<std::string> modelTableText(const Config& config, const MachineModel& machine, const JobShape& job,
                                   const Deadline* until) {
  if (machine.ranks() > kMostPredictedRanks)
    return makeStatus(Code::kInvalidArgument,
                      "predictions are made for at most %d ranks, here are %d: let 'horing-sim select' write "
                      "a table, and give "
                      "its name as HORING_SELECTION",
                      kMostPredictedRanks, machine.ranks());
  HORING_TRY(checkLinksKnown(machine));
  if (config.selection == kSelectionAuto) HORING_TRY(checkUndisturbed(machine));
  SelectionQuestion asked;
  asked.question = questionOf(config, machine);
  asked.collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather};
  const uint64_t most_bytes =
      std::max(kMostPredictedBytes, static_cast<uint64_t>(machine.ranks()) * kMostPredictedBlock);
  for (uint64_t bytes = kLeastPredictedBytes; bytes <= most_bytes; bytes *= 4) asked.sizes.push_back(bytes);
  if (config.selection == kSelectionAuto) asked.standing = &SelectionTable::builtIn();
  asked.job = job;
  asked.until = until;
  HORING_ASSIGN(const std::string predicted, selectionText(asked));
  return predicted + SelectionTable::builtIn().text();
}

}  // namespace horing
