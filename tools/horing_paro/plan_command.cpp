#include "horing_paro/plan_command.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "common/quantity.h"
#include "common/text_file.h"
#include "horing_paro/cost_file.h"
#include "horing_paro/guideline.h"
#include "horing_paro/plan_chart.h"
#include "horing_paro/plan_report.h"

namespace horing::paro {

namespace {

constexpr const char* kPlanFooter = R"(Examples
  Four nodes of 8 GPUs with 80 GiB, 10 micro-steps:
      horing-paro plan --params 7e9 --nodes 4 --ranks 8 --accumulate 10 --memory 80GiB --svg plan.svg
  Most of the model frozen, one 100 Gbit/s interface per node:
      horing-paro plan --params 65B --trainable 65M --nodes 4 --ranks 8 --slow 100Gbit --interfaces 1
  Nodes of different sizes, such as those of a job that has lost a rank:
      horing-paro plan --params 7e9 --ranks-per-node 4,3 --accumulate 10
  With what collectives cost here, measured:
      horing-run -n 16 --nodes 4 --rate 100 -- horing-paro measure --output costs.json
      horing-paro plan --params 4M --nodes 4 --ranks 4 --accumulate 10 --costs costs.json

On nodes of different sizes memory and bytes are those of the rank, or node, that has the most.
Memory is that of parameters, gradients and optimizer state; gathered parameters, activations and buffers come on top: leave
room for them. Times are of communication alone, without overlap, unless --compute says what it can hide behind.
Exit code: 0; 1 if no strategy fits, or a file cannot be used; 2 for a wrong command line.)";

// Bytes of one parameter or gradient, and of the state beside it.
void setPrecision(const std::string& precision, horingParoModel_t& model) {
  model.wireBytes = precision == "fp64" ? 8 : precision == "fp32" ? 4 : 2;
  model.stateBytes = precision == "mixed" ? 12 : 2 * model.wireBytes;
}

constexpr double kMaxCount = 0x1p52;

Result<uint64_t> countOf(const char* option, const std::string& text) {
  const Result<double> count = parseCount(text);
  if (!count.ok())
    return makeStatus(Code::kInvalidArgument, "%s: %s", option, count.status().message().c_str());
  if (count.value() > kMaxCount) return makeStatus(Code::kInvalidArgument, "%s: more than 2^52", option);
  return static_cast<uint64_t>(std::llround(count.value()));
}

// The value of an option, or an error that names it.
template <typename Parse>
auto valueOf(const char* option, Parse parse, const std::string& text) -> decltype(parse(text)) {
  auto value = parse(text);
  if (!value.ok())
    return makeStatus(Code::kInvalidArgument, "%s: %s", option, value.status().message().c_str());
  return value;
}

Result<Links> linksOf(const PlanOptions& options) {
  Links links;
  HORING_ASSIGN(links.slow_bits_per_second, valueOf("--slow", parseRate, options.slow));
  HORING_ASSIGN(links.fast_bits_per_second, valueOf("--fast", parseRate, options.fast));
  HORING_ASSIGN(links.slow_hop_seconds, valueOf("--slow-latency", parseSeconds, options.slow_latency));
  HORING_ASSIGN(links.fast_hop_seconds, valueOf("--fast-latency", parseSeconds, options.fast_latency));
  links.interfaces = options.interfaces;
  return links;
}

Status takeNodes(const PlanOptions& options, Job& job) {
  const std::vector<int>& sizes = options.ranks_per_node;
  const Grid grid = sizes.empty() ? Grid{options.nodes, options.ranks} : gridOf(sizes);
  job.model.groups = grid.groups;
  job.model.ranksPerGroup = grid.members;
  if (grid.most == grid.members) return {};
  job.model.ranksPerGroup = 0;
  job.sizes = sizes;
  if (grid.ranks <= kMaxRanksOfUnequalNodes) return {};
  return makeStatus(Code::kInvalidArgument,
                    "--ranks-per-node: %d ranks on nodes of different sizes, expected at most %d", grid.ranks,
                    kMaxRanksOfUnequalNodes);
}

Status takeMeasured(const PlanOptions& options, Question& question) {
  std::ifstream file(options.costs_file);
  if (!file.is_open()) return systemError(errno, "cannot read %s", options.costs_file.c_str());
  std::stringstream text;
  text << file.rdbuf();
  const Result<MeasuredCosts> measured = parseCosts(text.str());
  if (!measured.ok())
    return makeStatus(Code::kInvalidArgument, "%s: %s", options.costs_file.c_str(),
                      measured.status().message().c_str());
  const auto& [grid, costs, sizes] = measured.value();
  const Job& job = question.job;
  if (grid != job.grid() || sizes != job.sizes)
    return makeStatus(Code::kInvalidArgument, "%s was measured on %s, not on %s", options.costs_file.c_str(),
                      nodesText(grid, sizes).c_str(), nodesText(job.grid(), job.sizes).c_str());
  question.costs = costs;
  question.costs_text = "measured, from " + options.costs_file;
  return {};
}

Status takeRates(const PlanOptions& options, Question& question) {
  HORING_ASSIGN(const Links links, linksOf(options));
  const bool flat = options.cost == "flat-ring";
  question.costs = flat ? flatRingCosts(question.job.grid(), links) : hoRingCosts(question.job.grid(), links);
  const std::string interfaces =
      links.interfaces > 0 ? formatString("%d per node", options.interfaces) : "one per rank";
  question.costs_text = formatString("%s; interfaces of %.6g Gbit/s, %s; %.6g Gbit/s per rank inside a node",
                                     flat ? "flat ring" : "HO-Ring", links.slow_bits_per_second / 1e9,
                                     interfaces.c_str(), links.fast_bits_per_second / 1e9);
  return {};
}

}  // namespace

void declarePlan(CLI::App& command, PlanOptions& options) {
  command.add_option("--params", options.params, "Parameters of the model: 7e9, 125M, 65B")->required();
  command.add_option("--trainable", options.trainable, "Number of trained parameters; default: all");
  CLI::Option* const nodes = command.add_option("--nodes", options.nodes, "Nodes")
                                 ->check(CLI::Range(1, 1 << 16))
                                 ->capture_default_str();
  CLI::Option* const ranks = command.add_option("--ranks", options.ranks, "Ranks per node")
                                 ->check(CLI::Range(1, 1 << 16))
                                 ->capture_default_str();
  command
      .add_option("--ranks-per-node", options.ranks_per_node,
                  "The ranks of each node, where they differ: 4,3; instead of --nodes and --ranks")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxRanksOfUnequalNodes))
      ->excludes(nodes)
      ->excludes(ranks);
  command.add_option("--accumulate", options.accumulate, "Micro-steps per optimizer step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--memory", options.memory, "Memory that a rank has for model state: 80GiB, 80GB")
      ->capture_default_str();
  command
      .add_option(
          "--precision", options.precision,
          "Bytes per parameter, gradient and optimizer state: mixed 2, 2, 12; fp32 4, 4, 8; fp64 8, 8, 16")
      ->check(CLI::IsMember({"mixed", "fp32", "fp64"}))
      ->capture_default_str();
  command
      .add_option("--cost", options.cost,
                  "How a collective over all ranks runs; flat-ring is the paper's model")
      ->check(CLI::IsMember({"ho-ring", "flat-ring"}))
      ->capture_default_str();
  command.add_option("--costs", options.costs_file,
                     "Use the costs that 'horing-paro measure' wrote to this file instead of rates");
  command.add_option("--slow", options.slow, "Rate of one network interface in each direction")
      ->capture_default_str();
  command.add_option("--fast", options.fast, "Rate of one rank inside its node")->capture_default_str();
  command
      .add_option("--interfaces", options.interfaces,
                  "Network interfaces per node; default: one for each rank")
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--slow-latency", options.slow_latency, "Latency of a hop between nodes: 20us")
      ->capture_default_str();
  command.add_option("--fast-latency", options.fast_latency, "Latency of a hop inside a node")
      ->capture_default_str();
  command
      .add_option("--compute", options.compute,
                  "Computation per optimizer step, which hides communication: 1.5s")
      ->capture_default_str();
  command.add_option("--svg", options.svg_path, "Draw memory against time to this file");
  command.add_flag("--json", options.json, "Print JSON");
  command.footer(kPlanFooter);
}

void declareTable(CLI::App& command, PlanOptions& options) {
  command
      .add_option("--cost", options.cost,
                  "How a collective over all ranks runs; flat-ring is the paper's model")
      ->check(CLI::IsMember({"ho-ring", "flat-ring"}))
      ->default_val("flat-ring");
}

Result<Question> questionOf(const PlanOptions& options) {
  Question question;
  horingParoModel_t& model = question.job.model;
  HORING_ASSIGN(model.params, countOf("--params", options.params));
  HORING_ASSIGN(model.trainable,
                countOf("--trainable", options.trainable.empty() ? options.params : options.trainable));
  HORING_ASSIGN(const uint64_t memory, valueOf("--memory", parseBytes, options.memory));
  question.memory_bytes = static_cast<double>(memory);
  HORING_ASSIGN(question.job.compute_seconds, valueOf("--compute", parseSeconds, options.compute));
  setPrecision(options.precision, model);
  model.microSteps = options.accumulate;
  HORING_TRY(takeNodes(options, question.job));
  HORING_TRY(options.costs_file.empty() ? takeRates(options, question) : takeMeasured(options, question));
  return question;
}

Status runPlan(const PlanOptions& options) {
  HORING_ASSIGN(const Question question, questionOf(options));
  HORING_ASSIGN(const Plan plan, planStrategies(question.job, question.costs, question.memory_bytes));
  std::cout << (options.json ? planJson(question, plan) : planText(question, plan));
  if (!options.svg_path.empty()) HORING_TRY(writeFile(options.svg_path, planChart(question, plan)));
  return checkThatOneFits(plan);
}

Status runTable(const PlanOptions& options) {
  const auto costs = options.cost == "flat-ring" ? flatRingCosts : hoRingCosts;
  HORING_ASSIGN(const std::string text, guidelineText(costs(kPaperGrid, Links{}), options.cost));
  std::cout << text;
  return {};
}

}  // namespace horing::paro
