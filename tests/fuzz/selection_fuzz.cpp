#include "base/check.h"
#include "selection/forced_algorithms.h"
#include "selection/kept_table.h"
#include "selection/selection_table.h"
#include "sim/machine_model.h"
#include "targets.h"

namespace horing::fuzz {

// Texts of people and tools about algorithms and machines: an accepted text is unchanged after printing and parsing.
void selectionText(Bytes bytes) {
  const std::string_view text = textOf(bytes);
  if (const Result<SelectionTable> table = SelectionTable::parse(text, "text"); table.ok()) {
    const Result<SelectionTable> again = SelectionTable::parse(table.value().text(), "again");
    HORING_CHECK(again.ok() && again.value() == table.value());
  }
  if (const Result<MachineModel> machine = parseMachine(text, "text"); machine.ok()) {
    const std::string described = describeMachine(machine.value());
    const Result<MachineModel> again = parseMachine(described, "again");
    HORING_CHECK(again.ok() && describeMachine(again.value()) == described);
  }
  const KeptFor job = {"a job", "a version"};
  [[maybe_unused]] const Result<SelectionTable> foreign = parseKept(job, text);
  HORING_CHECK(parseKept(job, keptText(job, text)).ok() == SelectionTable::parse(text, "text").ok());
  [[maybe_unused]] const Result<ForcedAlgorithms> forced = ForcedAlgorithms::parse(text);
}

}  // namespace horing::fuzz
