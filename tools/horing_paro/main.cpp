// horing-paro: plans sharded training, and does it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <new>

#include "base/wrong_usage.h"
#include "horing_paro/measure/measure_command.h"
#include "horing_paro/plan_command.h"
#include "horing_paro/train/train_command.h"

namespace horing::paro {
namespace {

constexpr const char* kFooter =
    R"(Strategies have three letters, for parameters, gradients and optimizer state: N whole on every rank, I split inside each node, G split
over all ranks. NNN is DDP, NNG ZeRO-1, NGG ZeRO-2, GGG ZeRO-3 or FSDP, III MiCS. 'horing-paro COMMAND --help' has examples.)";

int run(int argc, char** argv) {
  CLI::App app(
      "Sharded data-parallel training with the least traffic over slow links for the available memory "
      "(PaRO).",
      "horing-paro");
  app.footer(kFooter);
  app.require_subcommand(
      0, 1);  // a missing subcommand is reported below, so that a wrong option is reported first
  PlanOptions plan_options, table_options;
  CLI::App* plan = app.add_subcommand("plan", "Which strategy to choose for a model on a machine, and why");
  declarePlan(*plan, plan_options);
  CLI::App* table =
      app.add_subcommand("table", "The guideline that the paper's formulas give for its constants");
  declareTable(*table, table_options);
  MeasureOptions measure_options;
  CLI::App* measure = app.add_subcommand(
      "measure", "Measures the cost of collectives here, for plan --costs; run it under a launcher");
  declareMeasure(*measure, measure_options);
  TrainOptions train_options;
  CLI::App* train =
      app.add_subcommand("train", "Trains a small language model, sharded, alone or under a launcher");
  declareTrain(*train, train_options);
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Status status;
  try {
    status = plan->parsed()      ? runPlan(plan_options)
             : table->parsed()   ? runTable(table_options)
             : measure->parsed() ? runMeasure(measure_options)
                                 : runTrain(train_options);
  } catch (const std::bad_alloc&) {  // from the standard library, for a model that is too large
    status = Status(Code::kSystemError, "out of memory: ask for a smaller model, bucket or vector");
  }
  if (status.ok()) return 0;
  std::cerr << "horing-paro: " + status.message() + "\n";  // at once: other ranks write to the same place
  return 1;
}

}  // namespace
}  // namespace horing::paro

int main(int argc, char** argv) {
  return horing::paro::run(argc, argv);
}
