#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/wrong_usage.h"
#include "horing_info/facts.h"
#include "horing_info/flight_trace.h"
#include "horing_info/job.h"
#include "horing_info/nccl.h"
#include "horing_info/selection.h"

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
  Why those, in a job of two nodes with four ranks each, and what the best other would take:
      HORING_CALIBRATE=lab.machine horing-info selection --explain 2x4
  The same for a machine that horing-tune measured, with predicted times; and what the model alone would choose:
      HORING_CALIBRATE=lab.machine horing-info selection
      HORING_SELECTION=model HORING_CALIBRATE=lab.machine horing-info selection
  Which rank is to blame, from what the ranks left when the job failed (run it with HORING_FLIGHT_DIR=DIR):
      horing-info trace DIR/horing-*.json
  What the running jobs of this machine do, who comes late and what is slow; only that of process 4711:
      horing-info job
      horing-info job 4711
  What becomes of NCCL's variables; and which libnccl a program really loads, horing's or another one:
      horing-info nccl
      horing-info nccl --check -- horing-run --nccl -- python3 -c 'import torch'
      horing-info nccl --check 4711

Exit code: 0; 1 if the environment holds a HORING_ variable with a wrong value or an unknown HORING_ name; 2 for a wrong
command line, or a file that cannot be read.
)help";

int print(const Result<std::string>& text) {
  std::fputs(text.ok() ? text.value().c_str() : ("horing-info: " + text.status().message() + "\n").c_str(),
             text.ok() ? stdout : stderr);
  return text.ok() ? 0 : 1;
}

// Prints which rank the files of a failed job blame.
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
  CLI::App* selection = app.add_subcommand(
      "selection",
      "Prints which algorithm serves which collective, shape and size; edit it for HORING_SELECTION");
  std::string job_text;
  bool shares_cores = false;
  CLI::Option* const explained = selection->add_option(
      "--explain", job_text,
      "For a job of NODESxRANKS (ranks of each node), or of RANKS,RANKS,...: the algorithm, the source of "
      "the choice, and the best other, with predicted times");
  selection->add_flag("--shared-cores", shares_cores, "There are more ranks than cores")->needs(explained);
  std::vector<std::string> files;
  CLI::App* trace = app.add_subcommand("trace", "Merges the flight records of a job's ranks into a verdict");
  trace->add_option("FILE", files, "Files of one job that its ranks wrote into HORING_FLIGHT_DIR")
      ->required();
  std::vector<std::string> pids;
  CLI::App* job_command = app.add_subcommand(
      "job", "Shows what running jobs do, from outside: each rank's calls, waits and rates");
  job_command->add_option("PID", pids,
                          "Processes to ask, one of a job is enough; default: all on this machine");
  bool check = false;
  std::vector<std::string> whom;
  CLI::App* nccl =
      app.add_subcommand("nccl", "Shows the effect of NCCL's variables, or which libnccl a program uses");
  nccl->add_flag("--check", check, "Says which libnccl a process has, or a command loads");
  nccl->add_option("PID|COMMAND", whom, "A process's number, or a command after --");
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (selection->parsed() && explained->empty()) return print(selectionInEffect());
  if (selection->parsed()) {
    std::optional<AskedJob> job = parseJob(job_text);
    if (!job) {
      std::fprintf(
          stderr,
          "horing-info: --explain takes NODESxRANKS, such as 2x4, or the ranks of each node, such as 4,3, of "
          "at most 1024 ranks in all, not '%s'\n",
          job_text.c_str());
      return 2;
    }
    job->shares_cores = shares_cores;
    return print(selectionExplained(*job));
  }
  if (trace->parsed()) return traceMain(files);
  if (nccl->parsed()) return ncclMain(check, whom);
  if (job_command->parsed()) {
    const Result<std::string> jobs = runningJobs(pids);
    return print(jobs) == 0 ? 0 : 2;
  }
  const Facts facts = gatherFacts(ranks);
  std::fputs(format(facts).c_str(), stdout);
  return facts.configuration.ok() && facts.unknown_variables.empty() ? 0 : 1;
}

}  // namespace
}  // namespace horing::info

int main(int argc, char** argv) {
  return horing::info::infoMain(argc, argv);
}
