// What a communicator learns of its machine, and chooses by that.
#include "comm/calibration.h"
#include "comm/communicator.h"
#include "selection/model_selection.h"

namespace horing {

// The last part of making a communicator: messages may be sent by now.
Status Communicator::settle() {
  const bool by_model = selectsByModel(options_.config);
  if (by_model && options_.config.calibrate == "0") return modelNeedsMachine();
  HORING_TRY(learnMachine());
  if (by_model) HORING_TRY(selectByModel());
  logWhoIsWhere();
  return {};
}

// Rank 0's measurement, or its file, on every rank.
Status Communicator::learnMachine() {
  const std::string& asked = options_.config.calibrate;
  if (asked == "0") return {};
  if (options_.machine) {
    machine_ = options_.machine;
    return {};
  }
  if (asked == "1") {
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
  Result<std::string> text = std::string();
  if (options_.rank == 0) {
    MachineModel machine = machine_.value_or(MachineModel());
    machine.nodes = map_->groups();
    machine.ranks_per_node = map_->largestGroup();
    text = modelTableText(options_.config, machine, jobShape());
    if (!text.ok()) log_.warn("init", "the built-in table chooses: %s", text.status().message().c_str());
    log_.info("init", "by HORING_SELECTION=%s:\n%s", options_.config.selection.c_str(),
              text.ok() ? text.value().c_str() : "");
  }
  const std::string mine = text.ok() ? text.value() : SelectionTable::builtIn().text();
  HORING_ASSIGN(const auto all, allGather(std::as_bytes(std::span(mine))));
  const std::string_view first(reinterpret_cast<const char*>(all[0].data()), all[0].size());
  HORING_ASSIGN(SelectionTable table, SelectionTable::parse(first, "that rank 0 predicted"));
  chooseBy(std::move(table));
  return {};
}

void Communicator::chooseBy(SelectionTable table) {
  selection_table_ = std::move(table);
  selector_ = std::make_unique<Selector>(makeSelector());
}

}  // namespace horing
