// horing-run: starts ranks on this machine, if wanted as several emulated nodes. See --help.
#include <cstdio>
#include <memory>
#include <string>

#include "horing_run/byte_report.h"
#include "horing_run/emulated_network.h"
#include "horing_run/job.h"
#include "horing_run/nccl_library.h"
#include "horing_run/network_namespace.h"
#include "horing_run/options.h"

namespace horing::run {
namespace {

constexpr int kSetupExitCode = 3;

int fail(const Status& status) {
  std::fprintf(stderr, "horing-run: %s\n", status.message().c_str());
  return kSetupExitCode;
}

int checkNodes() {
  Status status = gainNamespacePrivileges();
  if (status.ok())
    status = EmulatedNetwork::create({.nodes = 2, .rails = 1, .rates_mbit = {100, 100}}).status();
  if (!status.ok()) return fail(status);
  std::puts("Emulated nodes work here.");
  return 0;
}

void sayIfUneven(const Options& options) {
  if (!options.spreads_ranks || options.nodes == 0 || options.ranks % options.nodes == 0) return;
  const int larger = options.ranks % options.nodes;
  const int size = options.ranks / options.nodes;
  std::fprintf(stderr, "horing-run: %d ranks do not divide by %d nodes: %d with %d ranks, then %d with %d\n",
               options.ranks, options.nodes, larger, size + 1, options.nodes - larger, size);
}

Result<int> runJob(const Options& options, const BlockedSignals& signals) {
  std::unique_ptr<EmulatedNetwork> network;
  std::vector<InterfaceCounters> before;
  if (options.nodes > 0) {
    HORING_TRY(gainNamespacePrivileges());
    HORING_ASSIGN(network, EmulatedNetwork::create({options.nodes, options.rails, options.rates_mbit,
                                                    options.shm_mib, options.uplinks}));
    HORING_ASSIGN(before, network->readCounters());
  }
  if (options.nccl) HORING_TRY(offerNccl());
  Job job(options, signals, network.get());
  HORING_TRY(job.start());
  const int exit_code = job.wait();
  if (options.report_path.empty()) return exit_code;
  HORING_ASSIGN(const auto after, network->readCounters());
  HORING_TRY(writeByteReport(options.report_path, *network, before, after));
  return exit_code;
}

int run(const Options& options) {
  if (options.action == Action::kCheckNodes) return checkNodes();
  sayIfUneven(options);
  const BlockedSignals signals;
  const Result<int> outcome = runJob(options, signals);
  return outcome.ok() ? outcome.value() : fail(outcome.status());
}

}  // namespace
}  // namespace horing::run

int main(int argc, char** argv) {
  const horing::run::ParseOutcome parsed = horing::run::parseOptions(argc, argv);
  return parsed.options ? horing::run::run(*parsed.options) : parsed.exit_code;
}
