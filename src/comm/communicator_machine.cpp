// What a communicator learns of its machine, and chooses by that.
#include "comm/calibration.h"
#include "comm/communicator.h"
#include "selection/model_selection.h"

namespace horing {

// The last part of making a communicator: messages may be sent by now.
Status Communicator::settle() {
  const Config& config = options_.config;
  const bool by_model = selectsByModel(config);
  if (by_model && config.calibrate == kCalibrateNever) return modelNeedsMachine();
  if (by_model || config.calibrate == kCalibrateAlways || readsMachine(config)) HORING_TRY(learnMachine());
  if (by_model) {
    HORING_TRY(selectByModel());
  } else if (first_keeps_tables_ || measuresItself()) {
    HORING_TRY(selectByKept());
  }
  logWhoIsWhere();
  return {};
}

// Rank 0's measurement, or its file, on every rank.
Status Communicator::learnMachine() {
  if (options_.machine) {
    machine_ = options_.machine;
    return {};
  }
  const std::string& asked = options_.config.calibrate;
  if (!readsMachine(options_.config)) {
    HORING_ASSIGN(const Calibration calibration, calibrate(*this, CalibrationEffort::kQuick));
    machine_ = calibration.machine;
    if (options_.rank == 0 && !calibration.readings.unequal.empty())
      log_.warn("init", "links of one class differ, and the slowest counts in predictions:\n%s",
                calibration.readings.unequal.c_str());
  } else {
    const bool reads = options_.rank == 0;
    HORING_ASSIGN(machine_,
                  shareMachine(*this, reads ? readMachine(asked) : Result<MachineModel>(MachineModel())));
  }
  if (options_.rank != 0) return {};
  log_.info("init", "the machine, by HORING_CALIBRATE=%s:\n%s", asked.c_str(),
            describeMachine(*machine_).c_str());
  return {};
}

// Rank 0 predicts, and every rank reads its table: so they choose alike, whatever each would have worked out.
Status Communicator::selectByModel() {
  std::string text;
  if (options_.rank == 0) {
    MachineModel machine = machine_.value_or(MachineModel());
    machine.nodes = job_->map().groups();
    machine.ranks_per_node = job_->map().largestGroup();
    const Result<std::string> predicted = modelTableText(options_.config, machine, job_->shape());
    if (!predicted.ok())
      log_.warn("init", "the built-in table chooses: %s", predicted.status().message().c_str());
    text = predicted.ok() ? predicted.value() : SelectionTable::builtIn().text();
    log_.info("init", "by HORING_SELECTION=%s:\n%s", options_.config.selection.c_str(), text.c_str());
    if (predicted.ok() && !readsMachine(options_.config)) keepFirst(text);
  }
  HORING_ASSIGN(const std::string first, textOfFirst(text));
  return chooseByText(first);
}

// Rank 0's text on every rank.
Result<std::string> Communicator::textOfFirst(const std::string& text) {
  HORING_ASSIGN(const auto all, allGather(std::as_bytes(std::span(text))));
  return std::string(reinterpret_cast<const char*>(all[0].data()), all[0].size());
}

// Where it is empty the ranks keep the table that they have.
Status Communicator::chooseByText(const std::string& text) {
  if (text.empty()) return {};
  HORING_ASSIGN(SelectionTable table, SelectionTable::parse(text, "the table of rank 0"));
  chooseBy(std::move(table));
  return {};
}

void Communicator::chooseBy(SelectionTable table) {
  selection_table_ = std::move(table);
  selector_ = std::make_unique<Selector>(makeSelector());
  prepared_.clear();
}

}  // namespace horing
