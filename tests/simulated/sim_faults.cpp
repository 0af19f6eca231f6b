// Runs seeds of the simulation: sim_faults --seeds 1..10000, or one of them with sim_faults --seed 4711 --verbose.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "exchanges.h"
#include "simulation.h"

namespace horing::simulated {
namespace {

struct Options {
  std::string seeds = "1..1000";
  uint64_t seed = 0;
  bool verbose = false;
  uint64_t least_steps = 0;
};

struct Totals {
  uint64_t runs = 0, failures = 0, steps = 0, events = 0;
  uint64_t messages = 0;            // of sends and receives
  uint64_t faults = 0, errors = 0;  // runs with a fault; with an error on any rank
  int32_t most_ranks = 0;
};

constexpr uint64_t kMostFailuresShown = 10;

// For the handler of a crash, which has no other way to know.
char seed_text[64];

extern "C" void sayWhichSeed(int signal) {
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, seed_text, std::strlen(seed_text));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void runSeed(uint64_t seed, bool verbose, Expectation& expectation, Totals& totals) {
  std::snprintf(seed_text, sizeof seed_text, "FAILED: crash in seed %" PRIu64 "\n", seed);
  const Scenario scenario = makeScenario(seed);
  if (verbose) std::printf("%s\n", scenarioText(scenario).c_str());
  Simulation simulation(scenario, expectation);
  if (verbose) simulation.narrate();
  const Outcome outcome = simulation.run();
  ++totals.runs;
  totals.steps += outcome.steps;
  totals.events += outcome.events;
  totals.faults += scenario.fault != Fault::kNone;
  totals.errors += outcome.errors > 0;
  totals.most_ranks = std::max(totals.most_ranks, scenario.shape.ranks());
  if (verbose)
    std::printf("%" PRIu64 " steps, %" PRIu64
                " events, %lld virtual ns, %d ranks with an error, fingerprint %016" PRIx64 "\n",
                outcome.steps, outcome.events, static_cast<long long>(outcome.virtual_ns), outcome.errors,
                outcome.fingerprint);
  Exchanges exchanges(seed);
  if (verbose) std::printf("%s\n", exchanges.describe().c_str());
  const Exchanges::Outcome exchanged = exchanges.run();
  totals.messages += exchanged.messages;
  for (const std::string& failure : {outcome.failure, exchanged.failure})
    if (!failure.empty() && ++totals.failures <= kMostFailuresShown)
      std::printf("FAILED: %s  again: sim_faults --seed %" PRIu64 " --verbose\n", failure.c_str(), seed);
}

bool parseRange(const std::string& text, uint64_t* first, uint64_t* last) {
  char end = 0;
  return std::sscanf(text.c_str(), "%" SCNu64 "..%" SCNu64 "%c", first, last, &end) == 2 && *first <= *last;
}

int run(const Options& options) {
  uint64_t first = options.seed, last = options.seed;
  if (options.seed == 0 && !parseRange(options.seeds, &first, &last)) {
    std::fprintf(stderr, "--seeds wants FIRST..LAST, not '%s'\n", options.seeds.c_str());
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, sayWhichSeed);
  Expectation expectation;
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed <= last; ++seed) runSeed(seed, options.verbose, expectation, totals);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%" PRIu64 " seeds (%" PRIu64 " with a fault, %" PRIu64
              " that ended in errors), at most %d ranks, %" PRIu64 " engine steps, %" PRIu64
              " messages sent and received, %" PRIu64 " events, %.1f s, %.2f million steps/s: %" PRIu64
              " failed\n",
              totals.runs, totals.faults, totals.errors, totals.most_ranks, totals.steps, totals.messages,
              totals.events, seconds, static_cast<double>(totals.steps) / seconds / 1e6, totals.failures);
  if (totals.steps < options.least_steps) {
    std::printf("FAILED: %" PRIu64 " steps are fewer than %" PRIu64 "\n", totals.steps, options.least_steps);
    return 1;
  }
  return totals.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace horing::simulated

int main(int argc, char** argv) {
  horing::simulated::Options options;
  CLI::App app{
      "Runs the engine on simulated ranks, links and faults in virtual time. A seed decides everything."};
  app.add_option("--seeds", options.seeds, "these seeds, FIRST..LAST")->capture_default_str();
  app.add_option("--seed", options.seed, "this one (from 1)");
  app.add_flag("--verbose", options.verbose, "print the scenario and every event");
  app.add_option("--least-steps", options.least_steps, "fail if the engines ran fewer steps in all");
  CLI11_PARSE(app, argc, argv);
  return horing::simulated::run(options);
}
