// horing-tune: measures what the machine under a job costs, and writes it as the simulator and the library read it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/config.h"
#include "base/log.h"
#include "comm/calibration.h"
#include "comm/communicator.h"
#include "comm/launcher.h"
#include "text_file.h"

namespace horing {
namespace {

constexpr const char* kFooter = R"help(
Start it as the job that you want to run is started: as many ranks, on the same nodes. It sends messages between pairs of ranks,
one pair at a time and all at once, and works out what a message costs: latency and rate inside a node and between nodes, what a
step takes of a core, how fast data are copied and folded, what it costs to wake a rank, who shares a line. No collective is timed.

Examples
  Measure this machine with four ranks, and two emulated nodes of four:
      horing-run -n 4 -- horing-tune -o here.machine
      horing-run -n 8 --nodes 2 --rate 1000 -- horing-tune -o lab.machine
  On a cluster; rank 0 writes the file:
      mpirun -n 64 horing-tune -o cluster.machine
  What would ho_ring take there, and which algorithm is the best for which size:
      horing-sim run --machine lab.machine --algorithm ho_ring --bytes 64MiB
      horing-sim select --machine lab.machine --to 64M > lab.selection
  Let a job measure by itself while it starts (100 ms, less exact), or read what was measured:
      HORING_CALIBRATE=1 horing-run -n 4 -- my_program
      HORING_CALIBRATE=lab.machine horing-run -n 8 --nodes 2 --rate 1000 -- my_program

The file is text, "key = value": edit it. 'horing-sim machine' prints all keys with their defaults.
Exit code: 0; 1 when it cannot be measured or written; 2 for a wrong command line.
)help";

struct TuneOptions {
  std::string output;
  CalibrationEffort effort = CalibrationEffort::kThorough;
};

Status report(const Calibration& calibration, const TuneOptions& options) {
  const std::string text = describeReadings(calibration.readings) + describeMachine(calibration.machine);
  std::fputs(text.c_str(), stdout);
  return options.output.empty() ? Status() : writeFile(options.output, text);
}

Status measure(Communicator& communicator, const TuneOptions& options) {
  HORING_ASSIGN(const Calibration calibration, calibrate(communicator, options.effort));
  Status reported;
  if (communicator.rank() == 0) reported = report(calibration, options);
  HORING_TRY(communicator.leave());
  return reported;
}

Status tune(const TuneOptions& options) {
  HORING_ASSIGN(Config config, Config::fromEnvironment());
  config.calibrate = "0";
  HORING_ASSIGN(const Launched launched, launchedRank(config, Log(config.logLevel())));
  CommunicatorOptions made;
  made.config = config;
  made.id = launched.id;
  made.rank = launched.rank;
  made.ranks = launched.ranks;
  if (launched.ranks < 2)
    return makeStatus(
        Code::kInvalidUsage,
        "one rank has nobody to send to: start two or more, as 'horing-run -n 2 -- horing-tune'");
  HORING_ASSIGN(const std::unique_ptr<Communicator> communicator, Communicator::create(std::move(made)));
  return measure(*communicator, options);
}

int tuneMain(int argc, char** argv) {
  CLI::App app{
      "Measures what this machine costs, as the simulator and the library read it (horing-sim --machine, "
      "HORING_CALIBRATE).",
      "horing-tune"};
  TuneOptions options;
  app.footer(kFooter);
  app.add_option("-o,--output", options.output, "Rank 0 writes the machine to this file, too");
  app.add_flag_callback(
      "--quick", [&] { options.effort = CalibrationEffort::kQuick; },
      "Some 100 ms in place of some seconds: what HORING_CALIBRATE=1 does");
  try {
    app.parse(argc, argv);
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
