#include "options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "algorithms/catalogue.h"
#include "base/wrong_usage.h"
#include "common/quantity.h"

namespace horing {

namespace {

constexpr const char* kFooter = R"(Examples:
  horing-sim run --collective all_reduce --algorithm ho_ring --nodes 16 --ranks 8 --bytes 1GiB
      How long it takes, how busy the lines are, what the end waited for, and how far it is from what the wire allows.
  horing-sim run --algorithm ho_ring --nodes 4 --ranks 4 --bytes 16MiB --svg run.svg --trace run.json
      The same as a picture, and as a trace for https://ui.perfetto.dev.
  horing-sim run --nodes 2048 --ranks 8 --bytes 1GiB --window 8 --algorithm ho_ring_direct
      16,384 ranks: if the schedules of all nodes are alike, one node stands for all.
  horing-sim machine --inter-gbytes 0.0625 --nic node --cores 2 > lab.machine
  horing-sim run --machine lab.machine --nodes 2 --ranks 8 --bytes 64MiB
      A machine in a file: print one, change it, and use it.
  horing-sim run --algorithm ho_shares --ranks 2,2,2,1 --inter-gbytes 12.5,12.5,12.5,5 --nic node --cluster-svg cluster.svg
      Nodes that differ in ranks and in the speed of their links, and a picture of what each link carries.
  horing-sim compare --nodes 16 --ranks 8 --algorithms ring,ho_ring,ho_halving --svg sizes.svg
      Algorithms side by side, from 4 KiB to 1 GiB.
  horing-sim compare --over nodes --bytes 1GiB --rates 12.5,50 --intra-gbytes 450 --slice-bytes 1MiB --window 8 --svg nodes.svg
      Efficiency against the wire as the machine grows, for two speeds.
  horing-sim compare --paper --slice-bytes 1MiB --window 8 --svg paper.svg
      ring against ho_ring, beside what the HO-Ring paper measured.
  horing-sim select --machine lab.machine --nodes 2 --ranks 8 --to 64M > lab.selection
      The fastest algorithm for each size, as the table that the library reads (HORING_SELECTION).
  horing-sim run --algorithm ring --nodes 4 --ranks 1 --bytes 64KiB --all-ranks --goal ring.goal
      The same operations for LogGOPSim, another simulator (txt2bin -i ring.goal -o ring.bin; LogGOPSim -f ring.bin).

Bytes are those of the whole vector: what all ranks reduce, or have gathered in the end. K, MiB and GiB are powers of 1024,
MB and GB powers of 1000. Algorithms: 'horing-plan list'. What the model covers and leaves out: src/sim/README.md.
Exit code: 0; 1 if nothing can be predicted; 2 for a wrong command line.)";

// Text of options that are parsed later.
struct Raw {
  std::string collective = "all_reduce";
  std::string bytes = "1GiB";
  std::string slice_bytes = "64K";
  std::string machine_path;
  std::optional<int32_t> nodes, slots, inter_slots;
  std::optional<double> inter_latency, intra_latency, intra_rate, cores;
  std::vector<int32_t> ranks;       // one for all nodes, or one for each
  std::vector<double> inter_rates;  // the same
  std::optional<std::string> nic;
  std::vector<std::string> collectives = {"all_reduce", "reduce_scatter", "all_gather"};
  std::vector<std::string> algorithms = {"ring", "ho_ring", "ho_ring_direct", "ho_halving", kSelected};
  std::string over = "size";
  std::vector<int32_t> node_counts;
  std::string from = "4K", to = "1GiB";
  bool all_ranks = false;
  bool paper = false;
};

void addMachine(CLI::App& command, Raw& raw) {
  command.add_option("--machine", raw.machine_path,
                     "A description of the machine (see 'horing-sim machine')");
  command.add_option("-m,--nodes", raw.nodes, "Nodes (default: 2)")->check(CLI::Range(1, kMaxModelNodes));
  command.add_option("-n,--ranks", raw.ranks, "Ranks per node (default: 8), or of each node: 4,4,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, kMaxModelRanksPerNode));
  command.add_option("--inter-us", raw.inter_latency, "Latency between nodes in microseconds (default: 5)")
      ->check(CLI::Range(0.0, 1e9));
  command
      .add_option("--inter-gbytes", raw.inter_rates,
                  "Rate of each NIC, each way, in 10^9 bytes per second (default: 12.5), or of the NICs of "
                  "each node: 12.5,12.5,5")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, 1e9));
  command.add_option("--intra-us", raw.intra_latency, "Latency inside a node in microseconds (default: 2)")
      ->check(CLI::Range(0.0, 1e9));
  command
      .add_option("--intra-gbytes", raw.intra_rate,
                  "Rate of each rank's port inside a node, each way, in 10^9 bytes per second (default: 200)")
      ->check(CLI::Range(0.0, 1e9));
  command.add_option("--nic", raw.nic, "Owner of a NIC: each 'rank' (default) or each 'node'")
      ->check(CLI::IsMember({"rank", "node"}));
  command.add_option("--cores", raw.cores, "Cores per node (default: 0, one for each rank)")
      ->check(CLI::Range(0.0, 1e6));
}

std::vector<std::string> collectiveNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kCollectives; ++i) names.emplace_back(collectiveName(static_cast<Collective>(i)));
  return names;
}

void addSizes(CLI::App& command, Raw& raw) {
  command.add_option("--from", raw.from, "Smallest size; each is four times the one before")
      ->capture_default_str();
  command.add_option("--to", raw.to, "Largest size")->capture_default_str();
}

void addPipelining(CLI::App& command, Raw& raw, Pipelining& plan) {
  command.add_option("--window", plan.window, "Slices of one step before the next step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--slice-bytes", raw.slice_bytes, "Largest slice, and size of a slot")
      ->capture_default_str();
  command
      .add_option("--slices", plan.slices_per_chunk,
                  "Slices per chunk, whatever their size (default: as the library cuts)")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--slots", raw.slots,
                  "Slots of a connection inside a node (default: 8, or twice the window if larger)")
      ->check(CLI::Range(1, 65536));
  command
      .add_option("--inter-slots", raw.inter_slots,
                  "Slots of a connection between nodes (default: 32, fewer in jobs of 8 ranks and more, as "
                  "the library)")
      ->check(CLI::Range(1, 65536));
}

void addCall(CLI::App& command, Raw& raw, Pipelining& plan) {
  command.add_option("-c,--collective", raw.collective, "Which collective")
      ->check(CLI::IsMember(collectiveNames()))
      ->capture_default_str();
  command.add_option("-b,--bytes", raw.bytes, "Size of the whole vector")->capture_default_str();
  addPipelining(command, raw, plan);
}

// Throws CLI::ValidationError.
uint64_t bytesOf(const std::string& option, const std::string& text) {
  const Result<uint64_t> bytes = parseBytes(text);
  if (!bytes.ok()) throw CLI::ValidationError(option, bytes.status().message());
  return bytes.value();
}

// A list says how many nodes there are. Throws CLI::ValidationError.
void setNodes(const Raw& raw, MachineModel& machine) {
  const size_t listed = std::max(raw.ranks.size(), raw.inter_rates.size());
  const size_t described = static_cast<size_t>(machine.nodes);
  const size_t nodes = raw.nodes ? static_cast<size_t>(*raw.nodes) : listed > 1 ? listed : described;
  if (nodes != described && (machine.rails || !machine.link_parts.empty()))
    throw CLI::ValidationError(
        "--machine", formatString("describes each of %zu nodes, and here are %zu", described, nodes));
  for (const auto& [option, given] :
       {std::pair("--ranks", raw.ranks.size()), std::pair("--inter-gbytes", raw.inter_rates.size())})
    if (given > 1 && given != nodes)
      throw CLI::ValidationError(
          option, formatString("%zu numbers for %zu nodes: give one, or one for each", given, nodes));
  if (raw.ranks.size() > 1) {
    machine.setNodes(raw.ranks);
  } else if (!raw.ranks.empty() || nodes != described) {
    machine.setNodes(std::vector<int32_t>(nodes, raw.ranks.empty() ? machine.ranks_per_node : raw.ranks[0]));
  }
  if (raw.inter_rates.empty()) return;
  // CLI::Range accepts "nan".
  const bool may_be_zero = raw.inter_rates.size() == 1;
  for (const double rate : raw.inter_rates)
    if (!(rate > 0 || (may_be_zero && rate == 0)))
      throw CLI::ValidationError("--inter-gbytes", "a rate is a number, and that of each node is above 0");
  machine.setRates(raw.inter_rates);
}

// Throws CLI::ValidationError.
MachineModel machineOf(const Raw& raw) {
  MachineModel machine;
  if (!raw.machine_path.empty()) {
    const Result<MachineModel> read = readMachine(raw.machine_path);
    if (!read.ok()) throw CLI::ValidationError("--machine", read.status().message());
    machine = read.value();
  }
  setNodes(raw, machine);
  machine.between.latency_us = raw.inter_latency.value_or(machine.between.latency_us);
  machine.inside.latency_us = raw.intra_latency.value_or(machine.inside.latency_us);
  machine.inside.gbytes_per_s = raw.intra_rate.value_or(machine.inside.gbytes_per_s);
  // An option for links that the file omits is their only description.
  if ((raw.inter_latency || !raw.inter_rates.empty()) && machine.links == Links::kInside)
    machine.links = Links::kBoth;
  if ((raw.intra_latency || raw.intra_rate) && machine.links == Links::kBetween) machine.links = Links::kBoth;
  machine.cores = raw.cores.value_or(machine.cores);
  if (raw.nic) machine.nic = *raw.nic == "node" ? Owner::kNode : Owner::kRank;
  return machine;
}

Collective collectiveOf(const std::string& name) {
  int number = 0;
  while (name != collectiveName(static_cast<Collective>(number))) ++number;
  return static_cast<Collective>(number);
}

std::vector<uint64_t> sizesBetween(uint64_t from, uint64_t to) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = std::max<uint64_t>(from, 4); bytes <= to; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

uint64_t memoryOfThisMachine() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Throws CLI::ValidationError.
void finish(const Raw& raw, SimOptions& options) {
  Question& question = options.question;
  question.machine = machineOf(raw);
  question.collective = collectiveOf(raw.collective);
  question.bytes = bytesOf("--bytes", raw.bytes);
  question.pipelining.slice_bytes = bytesOf("--slice-bytes", raw.slice_bytes);
  // With window + 1 slots nothing deadlocks, but senders often wait for credits.
  question.pipelining.slots_inside = raw.slots.value_or(std::max(8, 2 * question.pipelining.window));
  question.pipelining.slots_between = raw.inter_slots.value_or(0);
  question.ranks = raw.all_ranks || !options.goal_path.empty() ? Ranks::kAll : Ranks::kOneNodeIfEqual;
  question.most_bytes = memoryOfThisMachine() / 2;
  Comparison& comparison = options.comparison;
  comparison.question = question;
  comparison.algorithms = raw.algorithms;
  comparison.over = raw.over == "nodes" ? Comparison::Over::kNodes : Comparison::Over::kSize;
  comparison.sizes = sizesBetween(bytesOf("--from", raw.from), bytesOf("--to", raw.to));
  if (comparison.sizes.empty()) throw CLI::ValidationError("--to", "must not be below --from");
  options.selection.question = question;
  options.selection.sizes = comparison.sizes;
  for (const std::string& name : raw.collectives) options.selection.collectives.push_back(collectiveOf(name));
  comparison.nodes = raw.node_counts;
  if (comparison.over == Comparison::Over::kNodes &&
      (question.machine.rails || !question.machine.link_parts.empty()))
    throw CLI::ValidationError("--over", "nodes: all nodes have the same ranks and rates");
  if (comparison.nodes.empty()) comparison.nodes = {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  options.against = raw.paper ? SimOptions::Against::kPaper : SimOptions::Against::kEachOther;
}

void addRun(CLI::App& run, SimOptions& options, Raw& raw) {
  addMachine(run, raw);
  addCall(run, raw, options.question.pipelining);
  run.add_option("-a,--algorithm", options.question.algorithm, "Which algorithm; see 'horing-plan list'")
      ->capture_default_str();
  run.add_flag("--all-ranks", raw.all_ranks, "Simulate every rank, even if one node can represent all");
  run.add_option(
      "--trace", options.trace_path,
      "Write a Chrome trace to this file, for https://ui.perfetto.dev; of the first ranks only if all "
      "together have more than 2 million events");
  run.add_option("--svg", options.svg_path, "Write a timeline to this file");
  run.add_option("--cluster-svg", options.cluster_path,
                 "Write a picture of the nodes, and of what their links carry, to this file");
  run.add_option("--svg-ranks", options.drawn_ranks, "Ranks to draw")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  run.add_option("--goal", options.goal_path, "Write GOAL text to this file, for LogGOPSim");
}

void addCompare(CLI::App& compare, SimOptions& options, Raw& raw) {
  addMachine(compare, raw);
  addCall(compare, raw, options.question.pipelining);
  compare
      .add_option("-a,--algorithms", raw.algorithms,
                  "Which algorithms; 'selected': the one that the library picks")
      ->delimiter(',')
      ->capture_default_str();
  compare.add_option("--over", raw.over, "What to sweep: 'size' or 'nodes'")
      ->check(CLI::IsMember({"size", "nodes"}))
      ->capture_default_str();
  addSizes(compare, raw);
  compare
      .add_option("--node-counts", raw.node_counts, "With --over nodes: how many (default: 2,4,8,...,1024)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxModelNodes));
  compare
      .add_option("--rates", options.comparison.rates,
                  "Several rates between nodes, instead of --inter-gbytes")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e9));
  compare.add_flag("--paper", raw.paper, "Compare ring and ho_ring with the published figures");
  compare.add_option("--svg", options.svg_path, "Write a chart to this file");
  compare.add_option("--csv", options.csv_path, "Write the figures to this file as CSV");
}

void addSelect(CLI::App& select, SimOptions& options, Raw& raw) {
  addMachine(select, raw);
  addPipelining(select, raw, options.question.pipelining);
  addSizes(select, raw);
  select.add_option("-c,--collectives", raw.collectives, "Which collectives")
      ->delimiter(',')
      ->check(CLI::IsMember(collectiveNames()))
      ->capture_default_str();
}

}  // namespace

bool parseOptions(int argc, char** argv, SimOptions& options, int& exit_code) {
  CLI::App app{"Predicts how long collectives take on a machine that you describe.", "horing-sim"};
  Raw raw;
  app.require_subcommand(0, 1);  // none is found out below, so that a wrong option is named first
  app.footer(kFooter);
  CLI::App* run = app.add_subcommand("run", "Predict one collective");
  CLI::App* compare = app.add_subcommand("compare", "Compare algorithms");
  CLI::App* machine = app.add_subcommand("machine", "Print a description of a machine, to be edited");
  CLI::App* select = app.add_subcommand("select", "Print a selection table for a machine, from predictions");
  addRun(*run, options, raw);
  addSelect(*select, options, raw);
  addCompare(*compare, options, raw);
  addMachine(*machine, raw);
  for (CLI::App* command : {run, compare, select, machine})
    command->footer("'horing-sim --help' has examples.");
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    finish(raw, options);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  options.command = run->parsed()       ? SimOptions::Command::kRun
                    : compare->parsed() ? SimOptions::Command::kCompare
                    : select->parsed()  ? SimOptions::Command::kSelect
                                        : SimOptions::Command::kMachine;
  return true;
}

}  // namespace horing
