// horing-tune: measures the cost model of a job's machine, or its fastest algorithms, and writes a file for the simulator and the library.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cache_folder.h"
#include "base/config.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/wrong_usage.h"
#include "comm/communicator.h"
#include "comm/tuning/algorithm_measurement.h"
#include "comm/tuning/calibration.h"
#include "comm/tuning/kept.h"
#include "comm/tuning/tuning.h"
#include "common/quantity.h"
#include "common/text_file.h"
#include "launch/launcher.h"
#include "selection/kept_table.h"
#include "selection/model_selection.h"
#include "selection/table_words.h"

namespace horing {
namespace {

constexpr const char* kFooter = R"help(
Start it the way you start the job that you want to run: as many ranks, on the same nodes, bound to cores or not. If ranks outnumber
cores, times vary less if they are bound (horing-run --bind-to core) and nothing else runs. It sends messages between pairs of
ranks, one pair at a time and all at once, and works out what a message costs: latency and rate inside a node and between nodes,
how much of a core a step takes, how fast data are copied and folded, what it costs to wake a rank, who shares a line. No collective is
timed.

With --measure-algorithms it times only collectives: all algorithms, in turns, at every size (those that run the same
schedules here as one), and writes the table by which the library chooses on this machine for a job of this shape. That is the
best choice possible, and says nothing about other shapes.

Examples
  Measure this machine with four ranks, and two emulated nodes of four:
      horing-run -n 4 -- horing-tune -o here.machine
      horing-run -n 8 --nodes 2 --rate 1000 -- horing-tune -o lab.machine
  On a cluster; rank 0 writes the file:
      mpirun -n 64 horing-tune -o cluster.machine
  How long ho_ring would take there, and which algorithm is best for which size:
      horing-sim run --machine lab.machine --algorithm ho_ring --bytes 64MiB
      horing-sim select --machine lab.machine --to 64M > lab.selection
  Which algorithm is best for which size here, by trial:
      horing-run -n 8 --nodes 2 --rate 1000 -- horing-tune --measure-algorithms -o lab.selection
      HORING_SELECTION=lab.selection horing-run -n 8 --nodes 2 --rate 1000 -- my_program
  Let every job measure for itself while it starts (otherwise the first of its kind does, less exactly), or read what was measured:
      HORING_CALIBRATE=1 horing-run -n 4 -- my_program
      HORING_CALIBRATE=lab.machine horing-run -n 8 --nodes 2 --rate 1000 -- my_program

Whatever -o says, the resulting choice of algorithms is kept in a folder of yours (HORING_CACHE_DIR; "off": it is not), where
jobs like this one find it: of the same shape, bound alike, on such hosts. The last measurement counts: predictions
from the machine, or what was the fastest (--measure-algorithms from 256 bytes or less; the built-in table serves the rest).

The file is text, "key = value": edit it. 'horing-sim machine' prints all keys with their defaults.
Exit code: 0; 1 if nothing can be measured or written; 2 for a wrong command line.
)help";

constexpr uint64_t kSmallestKept = 256;  // of --measure-algorithms

struct TuneOptions {
  std::string output;
  CalibrationEffort effort = CalibrationEffort::kThorough;
  bool measures_algorithms = false;
  std::vector<std::string> collectives = {"all_reduce", "reduce_scatter", "all_gather"};
  std::string smallest = "256", largest = "16M";
};

Status report(const std::string& text, const TuneOptions& options) {
  std::fputs(text.c_str(), stdout);
  return options.output.empty() ? Status() : writeFile(options.output, text);
}

// Each size is four times the one before.
Result<AlgorithmGrid> gridOf(const TuneOptions& options) {
  HORING_ASSIGN(const uint64_t smallest, parseBytes(options.smallest));
  HORING_ASSIGN(const uint64_t largest, parseBytes(options.largest));
  if (smallest < 4 || largest < smallest)
    return makeStatus(Code::kInvalidArgument, "--from must be at least 4 bytes, and not above --to");
  AlgorithmGrid grid;
  for (const std::string& name : options.collectives) {
    const std::optional<Collective> collective = parseCollective(name);
    if (!collective)
      return makeStatus(Code::kInvalidArgument, "--collective takes names as all_reduce, not '%s'",
                        printable(name, 40).c_str());
    grid.collectives.push_back(*collective);
  }
  for (uint64_t bytes = smallest; bytes <= largest; bytes *= 4) grid.sizes.push_back(bytes);
  return grid;
}

// Checks the output path before measuring; every rank gets the result.
Status checkOutput(Communicator& communicator, const TuneOptions& options) {
  Status mine;
  if (communicator.membership().rank() == 0 && !options.output.empty()) {
    std::FILE* file = std::fopen(options.output.c_str(), "ae");
    if (!file) mine = systemError(errno, "rank 0 cannot write %s", options.output.c_str());
    if (file) std::fclose(file);
  }
  HORING_ASSIGN(const auto all, communicator.allGather(std::as_bytes(std::span(mine.message()))));
  if (all[0].empty()) return {};
  return makeStatus(Code::kInvalidArgument, "%.*s", static_cast<int>(all[0].size()),
                    reinterpret_cast<const char*>(all[0].data()));
}

// Stores the table in the cache for similar jobs. A failure to store does not fail the program.
void keep(const Communicator& communicator, const Result<std::string>& table) {
  const std::string& setting = communicator.membership().options().config.cache_dir;
  if (setting == kNoCache) return;
  const KeptTables kept(cacheFolder(setting));
  const KeptFor what = keptFor(communicator);
  const Status status = table.ok() ? kept.keep(what, table.value()) : table.status();
  if (status.ok()) {
    std::printf("# jobs like this one choose by %s\n#   %s\n", kept.pathFor(what).c_str(), what.job.c_str());
  } else {
    communicator.membership().log().warn(
        "tune", "not kept for later jobs (HORING_CACHE_DIR=off: nothing is): %s", status.message().c_str());
  }
}

Result<std::string> predictedTable(const Communicator& communicator, const MachineModel& machine) {
  Config config = communicator.membership().options().config;
  config.selection = kSelectionAuto;
  return modelTableText(config, machine, communicator.membership().placement().shape());
}

Status measure(Communicator& communicator, const TuneOptions& options) {
  HORING_TRY(checkOutput(communicator, options));
  std::string text;
  if (options.measures_algorithms) {
    HORING_ASSIGN(const AlgorithmGrid grid, gridOf(options));
    HORING_ASSIGN(const std::vector<MeasuredPoint> points, measureAlgorithms(communicator, grid));
    text = measuredTableText(points, communicator.membership().placement().shape());
    // A row also serves all smaller sizes.
    if (communicator.membership().rank() == 0 && grid.sizes.front() <= kSmallestKept)
      keep(communicator,
           measuredTableText(points, communicator.membership().placement().shape(), Larger::kLeftOut) +
               SelectionTable::builtIn().text());
  } else {
    HORING_ASSIGN(const Calibration calibration, calibrate(communicator, options.effort));
    text = describeReadings(calibration.readings) + describeMachine(calibration.machine);
    if (communicator.membership().rank() == 0)
      keep(communicator, predictedTable(communicator, calibration.machine));
  }
  Status reported;
  if (communicator.membership().rank() == 0) reported = report(text, options);
  HORING_TRY(communicator.leave());
  return reported;
}

Status tune(const TuneOptions& options) {
  HORING_ASSIGN(Config config, Config::fromEnvironment());
  config.calibrate = kCalibrateNever;
  config.algorithm = "auto";
  config.reproducible = false;
  config.selection = kSelectionByTable;
  HORING_ASSIGN(const Launched launched, launchedRank(config, config.log()));
  CommunicatorOptions made;
  made.config = config;
  made.id = launched.id;
  made.rank = launched.rank;
  made.ranks = launched.ranks;
  if (launched.ranks < 2)
    return makeStatus(Code::kInvalidUsage,
                      "one rank has no peer: start two or more, as 'horing-run -n 2 -- horing-tune'");
  HORING_ASSIGN(const std::unique_ptr<Communicator> communicator, createTuned(std::move(made)));
  return measure(*communicator, options);
}

int tuneMain(int argc, char** argv) {
  CLI::App app{
      "Measures the cost of communication on this machine, for the simulator and the library (horing-sim "
      "--machine, HORING_CALIBRATE), or which algorithms are fastest on it (HORING_SELECTION).",
      "horing-tune"};
  TuneOptions options;
  app.footer(kFooter);
  app.add_option("-o,--output", options.output,
                 "Also write the machine, or the table, to this file, on rank 0");
  app.add_flag_callback(
      "--quick", [&] { options.effort = CalibrationEffort::kQuick; },
      "Take about 100 to 200 ms instead of several seconds, as HORING_CALIBRATE=1 does");
  app.add_flag("--measure-algorithms", options.measures_algorithms,
               "Time all algorithms, and write a table for HORING_SELECTION instead");
  app.add_option("--collective", options.collectives, "With --measure-algorithms: only these")
      ->capture_default_str();
  app.add_option("--from", options.smallest,
                 "With --measure-algorithms: the smallest size, of the whole vector")
      ->capture_default_str();
  app.add_option("--to", options.largest,
                 "With --measure-algorithms: the largest size; each is four times the one before")
      ->capture_default_str();
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
    const Result<AlgorithmGrid> grid = gridOf(options);
    if (!grid.ok()) throw CLI::ValidationError("--measure-algorithms", grid.status().message());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status status = tune(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "horing-tune: %s\n", status.message().c_str());
  return 1;
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  return horing::tuneMain(argc, argv);
}
