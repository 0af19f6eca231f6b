// ho_ring_bench: the hierarchical overlapping ring against the flat ring of the same build, on the same links, at the same
// time. Run it under horing-run:
//
//   horing-run -n 16 --nodes 2 --rate 500 -- ho_ring_bench --output results.jsonl
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/byte_size.h"
#include "base/fd.h"
#include "base/wrong_usage.h"
#include "ho_ring/contest.h"
#include "ho_ring/contest_report.h"
#include "perf/report_json.h"

namespace horing::bench {
namespace {

struct Arguments {
  std::vector<std::string> sizes = {"16M", "64M"};
  std::vector<std::string> collectives = {"all_gather", "reduce_scatter", "all_reduce"};
  std::vector<std::string> interfaces;
  std::string output;
  ContestOptions contest;
};

std::vector<std::string> splitAtCommas(const char* text) {
  std::vector<std::string> parts;
  std::istringstream in(text ? text : "");
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("--sizes", arguments.sizes, "bytes of the whole vector, with K, M or G")->delimiter(',');
  app.add_option("--collectives", arguments.collectives, "which of all_gather, reduce_scatter, all_reduce")
      ->delimiter(',')
      ->check(CLI::IsMember({"all_gather", "reduce_scatter", "all_reduce"}));
  app.add_option("--repetitions", arguments.contest.repetitions, "timed rounds of each")
      ->check(CLI::Range(1, 10000));
  app.add_option("--warmup", arguments.contest.warmup, "untimed rounds before the timed ones, for each size")
      ->check(CLI::Range(0, 10000));
  app.add_option("--rate", arguments.contest.rate_mbit,
                 "Mbit/s of a node, over all its links; default: as horing-run shaped them")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--interfaces", arguments.interfaces, "interfaces of the raw stream; default: horing-run's")
      ->delimiter(',');
  app.add_option("--output", arguments.output,
                 "new file for the results, as lines of JSON; default: standard output");
}

Status finish(Arguments& arguments) {
  if (arguments.interfaces.empty())
    arguments.interfaces = splitAtCommas(std::getenv("HORING_RUN_INTERFACES"));
  const char* rate = std::getenv("HORING_RUN_RATE_MBIT");
  if (arguments.contest.rate_mbit == 0 && rate)
    arguments.contest.rate_mbit =
        std::atof(rate) * static_cast<double>(std::max<size_t>(arguments.interfaces.size(), 1));
  for (const std::string& text : arguments.sizes) {
    HORING_ASSIGN(const uint64_t bytes, parseBytes(text));
    if (bytes == 0) return makeStatus(Code::kInvalidArgument, "--sizes 0: expected something to move");
    arguments.contest.sizes.push_back(bytes);
  }
  for (const std::string& name : arguments.collectives)
    for (const Collective c : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather})
      if (name == collectiveName(c)) arguments.contest.collectives.push_back(c);
  return {};
}

// The algorithm is fixed when a communicator is made, so two communicators have two.
Result<perf::Ranks> makeCommunicator(const char* algorithm) {
  setenv("HORING_ALGO", algorithm, 1);
  horingComm_t comm = nullptr;
  HORING_TRY(perf::called(horingCommInitFromEnv(&comm), nullptr, "horingCommInitFromEnv"));
  return perf::Ranks::of(comm);
}

Status write(const Arguments& arguments, const std::string& text) {
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  HORING_ASSIGN(const Fd file, perf::createNewFile(arguments.output));
  return perf::writeAll(file, text);
}

Status runContest(const Arguments& arguments) {
  HORING_ASSIGN(perf::Ranks ring, makeCommunicator("ring"));
  HORING_ASSIGN(perf::Ranks ho_ring, makeCommunicator("ho_ring"));
  HORING_ASSIGN(const JobLayout layout, findLayout(ho_ring));
  if (!layout.even)
    return makeStatus(Code::kInvalidUsage,
                      "the nodes have different numbers of ranks: bounds are stated for equal ones");
  HORING_ASSIGN(std::vector<DuplexStream> streams, connectNeighbours(ho_ring, layout, arguments.interfaces));
  const bool first = ring.rank() == 0;
  Contest contest(ring, ho_ring, layout, std::move(streams));
  HORING_ASSIGN(const std::vector<SizeResult> results,
                contest.run(arguments.contest, [&](const std::string& text) {
                  if (first) std::fprintf(stderr, "ho_ring_bench: %s\n", text.c_str());
                }));
  if (first) HORING_TRY(write(arguments, contestJsonLines(results, layout.shape, arguments.contest)));
  HORING_TRY(perf::called(horingCommDestroy(ho_ring.comm()), nullptr, "horingCommDestroy"));
  return perf::called(horingCommDestroy(ring.comm()), nullptr, "horingCommDestroy");
}

int benchMain(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Times ho_ring against ring, and both against the wire. Run it under horing-run, mpirun or the like.",
      "ho_ring_bench");
  declare(app, arguments);
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? perf::kExitOk : perf::kExitInvalidUsage;
  }
  const Status usage = finish(arguments);
  const Status status = usage.ok() ? runContest(arguments) : usage;
  if (status.ok()) return perf::kExitOk;
  std::fprintf(stderr, "ho_ring_bench: %s\n", status.message().c_str());
  if (!usage.ok()) return perf::kExitInvalidUsage;
  return status.code() == Code::kTimeout ? perf::kExitTimeout : perf::kExitLibrary;
}

}  // namespace
}  // namespace horing::bench

int main(int argc, char** argv) {
  return horing::bench::benchMain(argc, argv);
}
