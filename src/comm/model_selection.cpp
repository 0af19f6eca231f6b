#include "comm/model_selection.h"

#include "algorithms/catalogue.h"
#include "comm/selection_table.h"
#include "comm/table_words.h"

namespace horing {

namespace {

// Of the whole vector. What serves the largest serves all that are larger.
constexpr uint64_t kLeastPredictedBytes = 256, kMostPredictedBytes = 16 << 20;
constexpr int64_t kMostPredictedSlices = 100'000;  // in one simulation

struct Fastest {
  const Algorithm* algorithm = nullptr;
  Picoseconds time = 0;
};

// By size. The first in the catalogue of those that are equally fast.
Result<std::vector<Fastest>> fastestOf(const SelectionQuestion& asked, Collective collective) {
  std::vector<Fastest> fastest(asked.sizes.size());
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    if (!algorithm.has(collective) || algorithm.inputs == Inputs::kShared) continue;
    Question question = asked.question;
    question.collective = collective;
    question.algorithm = algorithm.name;
    question.bytes = asked.sizes.front();
    Result<Prediction> prediction = predict(question, Record::kNothing);
    for (size_t i = 0; i < asked.sizes.size() && prediction.ok(); ++i) {
      if (i > 0) prediction = predictAgain(prediction.value(), asked.sizes[i], Record::kNothing);
      if (!prediction.ok()) break;
      const Picoseconds time = prediction.value().result.time;
      if (!fastest[i].algorithm || time < fastest[i].time) fastest[i] = {&algorithm, time};
    }
  }
  for (size_t i = 0; i < fastest.size(); ++i)
    if (!fastest[i].algorithm)
      return makeStatus(Code::kInvalidArgument, "no algorithm can run %s of %s here",
                        collectiveName(collective), tableBytesText(asked.sizes[i]).c_str());
  return fastest;
}

}  // namespace

Result<std::string> selectionText(const SelectionQuestion& asked) {
  const MachineModel& machine = asked.question.machine;
  std::string text = "# predicted, for:\n";
  const std::string described = describeMachine(machine);
  for (size_t at = 0; at < described.size();) {
    const size_t end = described.find('\n', at);
    text += "#   " + described.substr(at, end - at) + "\n";
    at = end + 1;
  }
  text += "# collective   groups  ranks of each  up to bytes  algorithm\n";
  for (const Collective collective : asked.collectives) {
    HORING_ASSIGN(const std::vector<Fastest> fastest, fastestOf(asked, collective));
    for (size_t i = 0; i < fastest.size(); ++i) {
      const bool is_last = i + 1 == fastest.size();
      if (!is_last && fastest[i + 1].algorithm == fastest[i].algorithm) continue;
      text +=
          formatString("%-14s %-7d %-14d %-12s %s  # %.1f us\n", collectiveName(collective), machine.nodes,
                       machine.ranks_per_node, is_last ? "*" : tableBytesText(asked.sizes[i]).c_str(),
                       fastest[i].algorithm->name, toMicroseconds(fastest[i].time));
    }
  }
  return text;
}

Status modelNeedsMachine() {
  return makeStatus(
      Code::kInvalidUsage,
      "HORING_SELECTION=model needs to know the machine: set HORING_CALIBRATE=1 to have it measured "
      "while a job starts, or to a file that 'horing-tune -o FILE' wrote");
}

Result<std::string> modelTableText(const Config& config, const MachineModel& machine) {
  if (machine.ranks() > kMostPredictedRanks)
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_SELECTION=model predicts for at most %d ranks, here are %d: let 'horing-sim select' write "
        "a table, and give its name in place of model",
        kMostPredictedRanks, machine.ranks());
  SelectionQuestion asked;
  asked.question.machine = machine;
  asked.question.most_slices = kMostPredictedSlices;
  Pipelining& pipelining = asked.question.pipelining;
  pipelining.window = static_cast<int32_t>(config.window);
  pipelining.slice_bytes = static_cast<size_t>(config.slice_bytes);
  pipelining.slots_inside = static_cast<int32_t>(config.slots);
  pipelining.slots_between = static_cast<int32_t>(config.socket_slots);
  asked.collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather};
  for (uint64_t bytes = kLeastPredictedBytes; bytes <= kMostPredictedBytes; bytes *= 4)
    asked.sizes.push_back(bytes);
  HORING_ASSIGN(const std::string predicted, selectionText(asked));
  return predicted + SelectionTable::builtIn().text();
}

}  // namespace horing
