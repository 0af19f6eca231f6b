#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "base/config.h"
#include "horing_info/facts.h"
#include "horing_info/flight_trace.h"
#include "horing_info/nccl.h"
#include "selection/kept_table.h"
#include "selection/model_selection.h"
#include "selection/selection_table.h"

namespace horing::info {
namespace {

constexpr const char* kFooter = R"help(
Examples
  What horing finds here, and what can be set:
      horing-info
  Whether shared memory is usable in this container:
      horing-info --json | jq '.transports[] | select(.name == "shm")'
  How much memory a communicator of 16 ranks takes on this machine:
      horing-info --ranks 16
  Only the variables and the machine; nothing is tried:
      horing-info --ranks 0
  Which algorithm serves what, as a table to edit:
      horing-info selection > table.txt
      HORING_SELECTION=table.txt horing-run -n 4 -- all_reduce_perf
  The same for a machine that horing-tune measured, with predicted times; and what the model alone would choose:
      HORING_CALIBRATE=lab.machine horing-info selection
      HORING_SELECTION=model HORING_CALIBRATE=lab.machine horing-info selection
  Which rank is to blame, from what the ranks left when the job failed (run it with HORING_FLIGHT_DIR=DIR):
      horing-info trace DIR/horing-*.json
  What becomes of NCCL's variables; and which libnccl a program really loads, horing's or another one:
      horing-info nccl
      horing-info nccl --check -- horing-run --nccl -- python3 -c 'import torch'
      horing-info nccl --check 4711

Exit code: 0; 1 if the environment holds a HORING_ variable with a wrong value or an unknown HORING_ name; 2 for a wrong
command line, or a file that cannot be read.
)help";

// As comments: where the rows come from, and for which jobs others take their place.
std::string sourceOfTable(const Config& config) {
  const bool is_auto = config.selection == kSelectionAuto;
  if (!is_auto && config.selection != kSelectionByTable) return "# the table in " + config.selection + "\n";
  std::string text = "# the table that is built in\n";
  if (!is_auto) return text;
  for (const std::string& path : KeptTables(cacheFolder(config.cache_dir)).paths()) {
    const Result<std::optional<std::string>> kept_text = readWhole(path, kMaxSelectionBytes);
    const std::string what = kept_text.ok() && kept_text.value() ? keptForLine(*kept_text.value()) : "";
    text += "# kept (HORING_CACHE_DIR): " + path + " for " + (what.empty() ? "no job: it is damaged" : what) +
            "\n";
  }
  return text;
}

// The table in effect, in a form that HORING_SELECTION takes. The model's has what it predicts as comments.
Result<std::string> selectionInEffect() {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  if (!selectsByModel(config)) {
    HORING_ASSIGN(const SelectionTable table, SelectionTable::fromSetting(config.selection));
    return sourceOfTable(config) + table.text();
  }
  if (config.calibrate == kCalibrateNever) return modelNeedsMachine();
  if (!readsMachine(config))
    return makeStatus(
        Code::kInvalidUsage,
        "HORING_CALIBRATE=auto or 1 measures while a job starts: let 'horing-tune -o FILE' measure, "
        "and give FILE here");
  HORING_ASSIGN(const MachineModel machine, readMachine(config.calibrate));
  HORING_ASSIGN(const std::string table, modelTableText(config, machine, jobOn(machine)));
  return "# the machine in " + config.calibrate + "\n" + table;
}

int printSelection() {
  const Result<std::string> text = selectionInEffect();
  std::fputs(text.ok() ? text.value().c_str() : ("horing-info: " + text.status().message() + "\n").c_str(),
             text.ok() ? stdout : stderr);
  return text.ok() ? 0 : 1;
}

// Whom the files of a failed job blame.
int traceMain(const std::vector<std::string>& files) {
  const Result<std::string> merged = mergeFlights(files);
  std::fputs(
      merged.ok() ? merged.value().c_str() : ("horing-info: " + merged.status().message() + "\n").c_str(),
      merged.ok() ? stdout : stderr);
  return merged.ok() ? 0 : 2;
}

// The mapping, or which library a process or a command uses.
int ncclMain(bool check, const std::vector<std::string>& whom) {
  if (check == whom.empty()) {
    std::fputs(
        "horing-info: nccl --check wants a process's number or a command; without --check there is none\n",
        stderr);
    return 2;
  }
  const Result<std::string> text = check ? ncclLibrariesOf(whom) : Result<std::string>(ncclText());
  std::fputs(text.ok() ? text.value().c_str() : ("horing-info: " + text.status().message() + "\n").c_str(),
             text.ok() ? stdout : stderr);
  return text.ok() ? 0 : 2;
}

int infoMain(int argc, char** argv) {
  int ranks = 2;
  std::string (*format)(const Facts&) = factsText;
  CLI::App app("Shows versions, the machine, the transports usable here, and every environment variable.",
               "horing-info");
  app.footer(kFooter);
  app.add_flag_callback(
      "--json", [&] { format = factsJson; }, "Print JSON");
  app.add_option("--ranks", ranks, "Number of ranks with which transports are tried; 0: try none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  const CLI::App* selection = app.add_subcommand(
      "selection",
      "Prints which algorithm serves which collective, shape and size; edit it for HORING_SELECTION");
  std::vector<std::string> files;
  CLI::App* trace = app.add_subcommand("trace", "Merges the flight records of a job's ranks into a verdict");
  trace->add_option("FILE", files, "What ranks wrote into HORING_FLIGHT_DIR, of one job")->required();
  bool check = false;
  std::vector<std::string> whom;
  CLI::App* nccl =
      app.add_subcommand("nccl", "Shows what becomes of NCCL's variables, or which libnccl a program uses");
  nccl->add_flag("--check", check, "Says which libnccl a process has, or a command loads");
  nccl->add_option("PID|COMMAND", whom, "A process's number, or a command after --");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (selection->parsed()) return printSelection();
  if (trace->parsed()) return traceMain(files);
  if (nccl->parsed()) return ncclMain(check, whom);
  const Facts facts = gatherFacts(ranks);
  std::fputs(format(facts).c_str(), stdout);
  return facts.configuration.ok() && facts.unknown_variables.empty() ? 0 : 1;
}

}  // namespace
}  // namespace horing::info

int main(int argc, char** argv) {
  return horing::info::infoMain(argc, argv);
}
