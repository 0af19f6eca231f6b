#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/version.h"
#include "base/wrong_usage.h"
#include "common/quantity.h"
#include "common/text_file.h"
#include "horing_check/baseline.h"
#include "horing_check/expectation.h"
#include "horing_check/report.h"
#include "horing_check/session.h"

namespace horing::check {
namespace {

constexpr const char* kFooter = R"help(
Start it on the nodes that you want to know about, with any launcher. One rank of each node measures, however many there are. It compares
what the nodes are, their clocks, memory and arithmetic, then sends messages between pairs of them, all pairs of a round at once, each
direction apart, and compares the data. With up to 16 nodes all pairs are measured, with more about log n random ones of each node
(--all-pairs: all). What is doubtful is measured again, with partners that are known to be good. Then all nodes run collectives together,
and the good ones without the others, beside what the simulator expects. It ends with what is slow: what a node sends, what it receives, or
the path between two.

Examples
  Eight nodes of a cluster:
      srun -N 8 --ntasks-per-node 1 --mpi=pmi2 horing-check
      mpirun -n 8 --map-by ppr:1:node horing-check --svg map.svg --hostfile good.txt
  Eight emulated nodes, of which one has a slow adapter:
      horing-run -n 8 --nodes 8 --rate 200,200,200,200,200,80,200,200 -- horing-check --svg map.svg
  Four nodes with adapters of 400 Gbit/s and four with 200; what no node of its kind does is slow:
      srun -N 8 --ntasks-per-node 1 --mpi=pmi2 horing-check --expect 'node[0-3]=400,node[4-7]=200'
  Only the names of the good nodes, for Slurm:
      horing-run -n 4 --nodes 4 --rate 200 -- horing-check --json check.json && jq -r .good_list check.json

Exit code, of the rank that reports, which is rank 0 unless it was lost (other ranks': 0, or 3 if they could not begin): 0 if nothing is
slower than the others; 1 if something is, if bytes were wrong, or if nodes do not reach each other; 2 for a wrong command line; 3 if the
check could not be made, or ended early. A difference between nodes is reported and is not an error.
)help";

constexpr int kWrongUsage = 2;

struct CheckOptions {
  SessionOptions session;
  std::string time = "60s", soak, expect;
  Expectation expectation;  // parsed
  std::string json, svg, hostfile, baseline;
};

// Checks files before measuring; a later write error does not lose the verdict.
Status checkFiles(const CheckOptions& options) {
  if (!options.baseline.empty()) HORING_TRY(readBaseline(options.baseline).status());
  for (const std::string* path : {&options.json, &options.svg, &options.hostfile})
    if (!path->empty()) HORING_TRY(checkWritable(*path));
  return {};
}

Status prepare(CheckOptions& options, const std::vector<std::string>& nodes) {
  HORING_TRY(checkFiles(options));
  HORING_ASSIGN(options.session.shares, options.expectation.sharesOf(nodes));
  return {};
}

Status writeFiles(const CheckOptions& options, const Report& report) {
  if (!options.json.empty()) HORING_TRY(writeFile(options.json, reportToJson(report)));
  if (!options.svg.empty()) HORING_TRY(writeFile(options.svg, heatMap(report)));
  if (options.hostfile.empty()) return {};
  std::string hosts;
  for (const std::string& host : goodHosts(report)) hosts += host + "\n";
  return writeFile(options.hostfile, hosts);
}

Status compare(const CheckOptions& options, Report& report) {
  if (options.baseline.empty()) return {};
  HORING_ASSIGN(const Baseline before, readBaseline(options.baseline));
  report.baseline = options.baseline;
  report.losses =
      lossesSince(before, baselineOf(report.names, report.figures, report.verdict), report.verdict.scatter);
  return {};
}

int fail(const Status& status) {
  std::fprintf(stderr, "horing-check: %s\n", status.message().c_str());
  return static_cast<int>(Outcome::kIncomplete);
}

// Shows progress in place on a terminal.
void showProgress(const std::string& text) {
  if (isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

// From the thread of the time limit.
void exitOverdue() {
  char host[64] = "";
  (void)gethostname(host, sizeof host - 1);
  std::fprintf(stderr, "horing-check: %s: the time was over, and something still did not end (--time)\n",
               host);
  _exit(static_cast<int>(Outcome::kIncomplete));
}

// All nodes end together, although some began later.
Status alignTimes(Nodes& nodes, SessionOptions& session) {
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - session.start).count();
  };
  HORING_ASSIGN(const double left_s, nodes.least(session.time_s - elapsed_s()));
  session.time_s = elapsed_s() + left_s;
  return {};
}

int check(CheckOptions options) {
  const std::chrono::milliseconds time(static_cast<int64_t>(options.session.time_s * 1000));
  TimeLimit time_limit(options.session.start + time, exitOverdue);
  Result<Nodes> met = Nodes::meet(static_cast<int>(time.count()), time_limit);
  if (!met.ok()) return fail(met.status());
  Nodes& nodes = met.value();
  if (nodes.self() < 0) return 0;
  if (const Status aligned = alignTimes(nodes, options.session); !aligned.ok()) return fail(aligned);
  // Rank 0 is the first rank of its node; it tells the others whether its options are right, so that none waits for it.
  std::vector<int32_t> may_begin = {1};
  const Status right = nodes.self() == 0 ? prepare(options, nodes.names()) : Status();
  may_begin[0] = right.ok() ? 1 : 0;
  if (const Status told = nodes.broadcast(may_begin); !told.ok()) return fail(told);
  if (may_begin[0] == 0) return right.ok() ? 0 : fail(right);
  if (nodes.self() == 0)
    std::printf("horing-check %s: %d nodes, %s\n", versionText(kLibraryVersion).c_str(), nodes.count(),
                hostList(nodes.names()).c_str());
  Report report = runSession(nodes, options.session, showProgress);
  // Launchers end a job when a rank fails: that would end the rank that reports before it has.
  if (nodes.self() != report.reporter) return 0;
  showProgress("");
  if (nodes.self() != 0)
    std::printf("%s reports in place of %s, and writes no files\n",
                nodes.names()[static_cast<size_t>(nodes.self())].c_str(), nodes.names().front().c_str());
  if (nodes.self() == 0)
    if (const Status compared = compare(options, report); !compared.ok()) return fail(compared);
  std::fputs(verdictText(report).c_str(), stdout);
  std::fflush(stdout);
  if (nodes.self() != 0) return static_cast<int>(outcomeOf(report));
  if (const Status written = writeFiles(options, report); !written.ok()) return fail(written);
  return static_cast<int>(outcomeOf(report));
}

int checkMain(int argc, char** argv) {
  CLI::App app("Says which node of a cluster, or which path between two, is slow.", "horing-check");
  CheckOptions options;
  app.footer(kFooter);
  app.add_option("--time", options.time, "How long it may take at most: 10s, 1.5s")->capture_default_str();
  app.add_option("--soak", options.soak,
                 "Go on for so long, whatever is found, and compare all that arrives: 10m");
  app.add_flag("--all-pairs", options.session.all_pairs, "Measure every pair, however many nodes there are");
  app.add_option(
      "--expect", options.expect,
      "Nodes of different kinds on purpose: Mbit/s of each, or shares, such as node[0-3]=400,node[4-7]=200");
  app.add_option("--seed", options.session.seed, "Of the random pairs of many nodes")->capture_default_str();
  app.add_option("--json", options.json, "Write all figures and findings to this file, on rank 0");
  app.add_option("--baseline", options.baseline,
                 "Compare with an earlier run, whose --json this file is, on rank 0");
  app.add_option("--svg", options.svg, "Draw the rates of all pairs into this file, on rank 0");
  app.add_option("--hostfile", options.hostfile, "Write the names of the good nodes to this file, on rank 0");
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
    options.session.soak = !options.soak.empty();
    const char* const name = options.session.soak ? "--soak" : "--time";
    const Result<double> time_s = parseSeconds(options.session.soak ? options.soak : options.time);
    if (!time_s.ok()) throw CLI::ValidationError(name, time_s.status().message());
    if (time_s.value() < 1 || time_s.value() > 86400) throw CLI::ValidationError(name, "from 1s to 86400s");
    options.session.time_s = time_s.value();
    if (app.count("--expect") > 0) {
      Result<Expectation> expectation = Expectation::parse(options.expect);
      if (!expectation.ok()) throw CLI::ValidationError("--expect", expectation.status().message());
      options.expectation = expectation.take();
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return check(options);
}

}  // namespace
}  // namespace horing::check

int main(int argc, char** argv) {
  return horing::check::checkMain(argc, argv);
}
