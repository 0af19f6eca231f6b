#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "algorithms/catalogue.h"
#include "base/wrong_usage.h"
#include "schedule/schedule.h"

namespace horing {

namespace {

constexpr const char* kFooter = R"(Examples:
  horing-plan list
      All algorithms, and which collectives they have.
  horing-plan show ho_ring --nodes 2 --ranks 8 --collective all_gather
      What rank 0 of 2 nodes with 8 ranks each does, step by step.
  horing-plan show ho_ring --nodes 2 --ranks 3 --position all --svg ho_ring.svg
      The same for all ranks, and a picture of how their lanes overlap.
  horing-plan show ho_ring --ranks 3,2 --position all --svg unequal.svg
      Nodes with different numbers of ranks.
  horing-plan verify ho_ring --nodes 4 --ranks 4
      Proves all three collectives: right values whatever the timing, and that no rank waits forever.
  horing-plan verify ring --ranks 4 --window 4 --slots 4
      What goes wrong with one slot too few: the circle of ranks that wait for each other.
  horing-plan show ring --position all > ring.txt;  horing-plan verify ring.txt
      A schedule in a file: print one, change it, and see whether it is still right.

Positions number the ranks group by group: position = node * RANKS + local index, where all nodes have RANKS. A line of a schedule reads
  chunk 2 = recv 3 + in -> out, send 1 after lane 0 step 3
take chunk 2 from position 3, fold in the rank's own input, keep it in the output, send it to position 1; not before step 3 of lane 0.
Exit code: 0; 1 if a schedule or plan is refused; 2 for a wrong command line.)";

std::vector<Collective> everyCollective() {
  return {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather};
}

// Text of options that are parsed later.
struct Raw {
  std::string collective;
  std::string position = "0";
  std::vector<int32_t> ranks = {4};  // of all nodes, or of each
};

void addShape(CLI::App& command, PlanOptions& options, Raw& raw) {
  command.add_option("what", options.what,
                     "An algorithm (see 'horing-plan list'), or a file of schedules; - is standard input");
  command.add_option("-m,--nodes", options.shape.groups, "Nodes (groups)")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("-n,--ranks", raw.ranks, "Ranks per node, or of each node: 4,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("-c,--collective", raw.collective, "Default: all_reduce to show, all three to verify")
      ->check(CLI::IsMember({"all_reduce", "reduce_scatter", "all_gather"}));
}

void addPlan(CLI::App& command, PlanParameters& plan) {
  command.add_option("--slices", plan.slices, "Slices per chunk; default: three windows")
      ->check(CLI::Range(1, kMaxSlices));
  command.add_option("--window", plan.window, "Slices per window, for all lanes or lane by lane")
      ->check(CLI::Range(1, kMaxWindow))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--message", plan.message_slices, "Slices per message")
      ->check(CLI::Range(1, kMaxWindow))
      ->capture_default_str();
  command.add_option("--slots", plan.slots, "Messages per connection; default: as many as the window needs")
      ->check(CLI::Range(1, kMaxQueueSlices));
  command
      .add_option("--scratch", plan.scratch_slices,
                  "Slices per scratch queue; default: as many as the window needs")
      ->check(CLI::Range(1, kMaxQueueSlices));
}

void fillDefaults(const CLI::App& verify, PlanParameters& plan) {
  const int32_t longest = *std::max_element(plan.window.begin(), plan.window.end());
  if (verify.count("--slices") == 0) plan.slices = representativeSlices(kMaxSlices, longest);
  if (verify.count("--slots") == 0) plan.slots = slotsNeeded(longest, plan.message_slices);
  if (verify.count("--scratch") == 0) plan.scratch_slices = scratchSlicesNeeded(longest);
}

CLI::ValidationError nothingNamed(const std::string& command) {
  std::string names;
  for (const Algorithm& algorithm : algorithmCatalogue())
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  return CLI::ValidationError("horing-plan " + command, "which schedule? Name an algorithm (" + names +
                                                            ") or a file, for example: horing-plan " +
                                                            command + " ho_ring --nodes 2 --ranks 4");
}

// Throws CLI::ValidationError. A list says how many nodes there are.
Shape shapeOf(const std::vector<int32_t>& ranks, int32_t nodes, bool are_nodes_given) {
  if (ranks.size() == 1) return {nodes, ranks[0]};
  if (are_nodes_given && ranks.size() != static_cast<size_t>(nodes))
    throw CLI::ValidationError(
        "--ranks", formatString("%zu numbers for %d nodes: give one, or one for each", ranks.size(), nodes));
  return Shape::of(ranks);
}

// Throws CLI::ValidationError.
int32_t positionOf(const std::string& text) {
  if (text == "all") return -1;
  int32_t position = 0;
  if (!CLI::detail::lexical_cast(text, position) || position < 0)
    throw CLI::ValidationError("--position", "'" + text + "' is neither a position nor 'all'");
  return position;
}

}  // namespace

bool parseOptions(int argc, char** argv, PlanOptions& options, int& exit_code) {
  CLI::App app{"Prints, draws and proves the schedules that horing runs.", "horing-plan"};
  Raw raw;
  options.parameters.window = {4};
  app.require_subcommand(
      0, 1);  // a missing subcommand is reported below, so that a wrong option is reported first
  app.footer(kFooter);
  CLI::App* list = app.add_subcommand("list", "List the algorithms");
  CLI::App* show = app.add_subcommand("show", "Print a schedule, or draw it");
  CLI::App* verify =
      app.add_subcommand("verify", "Prove schedules: right values, and no rank that waits forever");
  addShape(*show, options, raw);
  show->add_option("-p,--position", raw.position, "The rank to show, or 'all'")->capture_default_str();
  show->add_option("--svg", options.svg_path, "Also write a lane diagram to this file");
  addShape(*verify, options, raw);
  addPlan(*verify, options.parameters);
  for (CLI::App* command : {list, show, verify})
    command->footer(command == list ? "" : "'horing-plan --help' has examples.");
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    if (!list->parsed() && options.what.empty()) throw nothingNamed(show->parsed() ? "show" : "verify");
    options.position = positionOf(raw.position);
    const CLI::App* const named = show->parsed() ? show : verify;
    options.shape = shapeOf(raw.ranks, options.shape.groups, !list->parsed() && named->count("--nodes") > 0);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  options.command = list->parsed()   ? PlanOptions::Command::kList
                    : show->parsed() ? PlanOptions::Command::kShow
                                     : PlanOptions::Command::kVerify;
  if (options.command == PlanOptions::Command::kVerify) fillDefaults(*verify, options.parameters);
  for (Collective collective : everyCollective())
    if (raw.collective.empty() || raw.collective == collectiveName(collective))
      options.collectives.push_back(collective);
  return true;
}

}  // namespace horing
