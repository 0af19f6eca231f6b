#include "horing_paro/measure/measure_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "common/quantity.h"
#include "common/text_file.h"
#include "horing_paro/cost_file.h"
#include "horing_paro/measure/client_step.h"
#include "horing_paro/measure/scopes.h"
#include "horing_paro/measure/step_by_hand.h"
#include "horing_paro/train/sharded_layers.h"

namespace horing::paro {

namespace {

constexpr size_t kSmallParts =
    16;  // the shorter vector is a 16th of the longer: the line through both has both costs

constexpr const char* kFooter = R"(Examples
      horing-run -n 16 --nodes 4 --rate 100 -- horing-paro measure --output costs.json
      horing-paro plan --params 4M --nodes 4 --ranks 4 --accumulate 10 --costs costs.json
  On nodes of different sizes: float32, at most 4 MiB, the median of three or more; --precision and --repetitions do not count
      horing-run --ranks-per-node 4,3 -- horing-paro measure --output costs.json
      horing-paro plan --params 4M --ranks-per-node 4,3 --accumulate 10 --costs costs.json
  Seconds of one strategy's optimizer step by hand, its collectives one after the other; and of the client's step
      horing-run -n 16 --nodes 4 --rate 100 -- horing-paro measure --strategy IIG --params 2M --accumulate 10 --client)";

horingDataType_t typeOf(const std::string& precision) {
  return precision == "fp64" ? horingFloat64 : precision == "fp32" ? horingFloat32 : horingBfloat16;
}

using Work = std::function<Status()>;

// The slowest rank's seconds.
Result<double> timedOnce(Scopes& scopes, const Work& work) {
  HORING_TRY(scopes.slowest(0).status());  // all begin together
  const auto begin = std::chrono::steady_clock::now();
  HORING_TRY(work());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return scopes.slowest(taken.count());
}

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The median for each work, after a first time that makes connections. They take turns, so that a slow moment falls on all.
Result<std::vector<double>> timed(Scopes& scopes, int repetitions, const std::vector<Work>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int i = 0; i <= repetitions; ++i)
    for (size_t w = 0; w < works.size(); ++w) {
      HORING_ASSIGN(const double taken, timedOnce(scopes, works[w]));
      if (i > 0) seconds[w].push_back(taken);
    }
  std::vector<double> medians;
  for (const std::vector<double>& each : seconds) medians.push_back(medianOf(each));
  return medians;
}

size_t roundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Checks that the machine has enough memory, so that no rank is killed.
Status checkVector(double bytes) {
  const double machine =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes <= machine) return {};
  return makeStatus(Code::kInvalidArgument, "a vector of %s: this machine has %s of memory, ask for less",
                    bytesText(bytes).c_str(), bytesText(machine).c_str());
}

Result<CollectiveCost> measureOne(Scopes& scopes, horingParoScope_t scope, horingParoCollective_t collective,
                                  const MeasureOptions& options) {
  HORING_ASSIGN(const uint64_t wanted, parseBytes(options.bytes));
  HORING_TRY(checkVector(static_cast<double>(wanted)));
  const int share = scope == horingParoRail ? scopes.grid().members : 1;  // a rail carries V/m
  // Both divide by the ranks, in elements of any type.
  const size_t parts = kSmallParts * sizeof(double) * static_cast<size_t>(scopes.grid().ranks);
  const size_t large = roundUp(std::max<size_t>(wanted / static_cast<size_t>(share), 4096), parts);
  const size_t small = large / kSmallParts;
  const horingDataType_t type = typeOf(options.precision);
  std::vector<char> buffer(large);
  HORING_ASSIGN(const std::vector<double> seconds,
                timed(scopes, options.repetitions,
                      {[&] {
                         return scopes.run(scope, collective, {buffer.data(), large}, type);
                       },
                       [&] {
                         return scopes.run(scope, collective, {buffer.data(), small}, type);
                       }}));
  const double slow = seconds[0], fast = seconds[1];
  const double per_byte = std::max(0.0, slow - fast) / static_cast<double>(large - small);
  return CollectiveCost{std::max(0.0, slow - per_byte * static_cast<double>(large)), per_byte};
}

Status write(const std::string& path, const std::string& text) {
  if (path.empty()) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  return writeFile(path, text);
}

Status measureCosts(Scopes& scopes, const MeasureOptions& options) {
  MeasuredCosts measured{scopes.grid(), {}};
  for (horingParoScope_t scope : kScopes)
    for (horingParoCollective_t collective : kCollectives) {
      HORING_ASSIGN(measured.costs.at(scope, collective), measureOne(scopes, scope, collective, options));
    }
  return scopes.rank() == 0 ? write(options.output, formatCosts(measured)) : Status();
}

// On groups of different sizes: as PaRO measures for its choice of a strategy.
Status measureUnequal(horingComm_t comm, const std::vector<int>& sizes, const MeasureOptions& options) {
  if (!options.strategy.empty())
    return makeStatus(
        Code::kInvalidUsage,
        "--strategy needs groups of one size, and these are %s: start the same number of ranks on "
        "every node, or name groups with HORING_GROUP",
        nodesText(gridOf(sizes), sizes).c_str());
  HORING_ASSIGN(const uint64_t bytes, parseBytes(options.bytes));
  horingParoRates_t rates;
  HORING_TRY(statusOfParo(horingParoMeasure(comm, bytes, &rates)));
  MeasuredCosts measured{gridOf(sizes), {}, sizes};
  for (horingParoScope_t scope : kScopes)
    for (horingParoCollective_t collective : kCollectives) {
      const horingParoRate_t& rate = rates.of[collective][scope];
      measured.costs.at(scope, collective) = {rate.latencySeconds, rate.secondsPerByte};
    }
  HORING_ASSIGN(const Place place, placeIn(comm));
  return place.rank == 0 ? write(options.output, formatCosts(measured)) : Status();
}

Status measureStrategy(Scopes& scopes, const MeasureOptions& options) {
  horingParoStrategy_t strategy = horingParoAuto;
  HORING_TRY(statusOfParo(horingParoFindStrategy(options.strategy.c_str(), &strategy)));
  HORING_ASSIGN(const double count, parseCount(options.params));
  const horingDataType_t type = typeOf(options.precision);
  const auto wire_bytes = static_cast<int>(bytesOf(type));
  HORING_TRY(checkVector(count * wire_bytes));
  const auto params = roundUp(static_cast<size_t>(count), static_cast<size_t>(scopes.grid().ranks));
  const horingParoModel_t model = {sizeof(horingParoModel_t),
                                   scopes.grid().groups,
                                   scopes.grid().members,
                                   params,
                                   params,
                                   options.accumulate,
                                   wire_bytes,
                                   0,
                                   0};
  horingParoEstimate_t estimate = HORING_PARO_ESTIMATE_INITIALIZER;
  HORING_TRY(statusOfParo(horingParoGetEstimate(strategy, &model, &estimate)));
  StepByHand by_hand(scopes, estimate, params * bytesOf(type), type);
  std::vector<Work> works = {[&] { return by_hand.run(options.accumulate); }};
  std::unique_ptr<ClientStep> client;
  if (options.client) {
    HORING_ASSIGN(client, ClientStep::create(scopes.global(), {strategy, params, type, options.accumulate}));
    works.emplace_back([&] { return client->run(); });
  }
  HORING_ASSIGN(const std::vector<double> seconds, timed(scopes, options.repetitions, works));
  std::string text = formatString("%.9g", seconds[0]);
  if (client) text += formatString(" %.9g", seconds[1]);
  return scopes.rank() == 0 ? write(options.output, text + "\n") : Status();
}

}  // namespace

void declareMeasure(CLI::App& command, MeasureOptions& options) {
  command.add_option("--output", options.output, "The file to write; default: standard output");
  command.add_option("--bytes", options.bytes, "Size of the largest vector that is moved")
      ->capture_default_str();
  command
      .add_option("--precision", options.precision, "Data type of the transfers: bf16 (mixed), fp32 or fp64")
      ->check(CLI::IsMember({"mixed", "fp32", "fp64"}))
      ->capture_default_str();
  command.add_option("--repetitions", options.repetitions, "How often each is measured; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--strategy", options.strategy,
                     "Time a step of this strategy by hand instead, without the client");
  command.add_flag("--client", options.client,
                   "With --strategy: also time a step of the client, in turns: a second number");
  command.add_option("--params", options.params, "With --strategy: parameters of the model")
      ->capture_default_str();
  command.add_option("--accumulate", options.accumulate, "With --strategy: micro-steps per step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.footer(kFooter);
}

Status runMeasure(const MeasureOptions& options) {
  HORING_ASSIGN(const Communicator comm, joinJob());
  HORING_ASSIGN(const Groups groups, groupsIn(comm.get()));
  const Grid grid = gridOf(groups.sizes);
  if (grid.members != grid.most) return measureUnequal(comm.get(), groups.sizes, options);
  Scopes scopes(comm.get());
  HORING_TRY(scopes.open());
  return options.strategy.empty() ? measureCosts(scopes, options) : measureStrategy(scopes, options);
}

}  // namespace horing::paro
