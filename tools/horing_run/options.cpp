#include "horing_run/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>

#include "base/number.h"
#include "base/wrong_usage.h"
#include "horing_run/placement.h"

namespace horing::run {

namespace {

constexpr const char* kDescription =
    "Starts the ranks of a horing program on this machine, optionally on several emulated nodes with slow "
    "links.\n";

constexpr const char* kFooter = R"help(
Examples
  Four ranks on this machine:
      horing-run -n 4 -- all_reduce_perf -b 8 -e 64M -f 2
  Eight ranks on two emulated nodes, each with a link of 1000 Mbit/s in each direction:
      horing-run -n 8 --nodes 2 --rate 1000 -- all_reduce_perf -b 64M -e 64M
  Eight nodes, of which the last four share an uplink that carries as much as two of their links:
      horing-run -n 8 --nodes 8 --rate 200 --uplink 4-7=400 -- horing-check
  The same as the second, and how many bytes crossed each node's link:
      horing-run -n 8 --nodes 2 --rate 1000 --report-bytes bytes.json -- all_reduce_perf -b 64M -e 64M
  Seven ranks on nodes of four and three, the second with slower links, which get slower still after 10 s:
      horing-run --ranks-per-node 4,3 --rate 1000,400 --rate-at 10:1=200 -- all_reduce_perf -b 64M -e 64M
  Eight ranks, evenly spread over the cores, for times that do not depend on where the kernel puts them:
      horing-run -n 8 --bind-to core -- all_reduce_perf -b 8 -e 1M -f 4
  Which rank is where:
      horing-run -n 5 --nodes 2 --tag-output -- sh -c 'echo "local rank $LOCAL_RANK on $(hostname)"'
  A program made for NCCL, on horing instead (horing-info nccl --check says which one a program uses):
      horing-run --nccl -n 8 -- python3 train.py
  Whether emulated nodes are possible here, and if not, why:
      horing-run --check-nodes

What a rank finds in its environment
  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
  MASTER_ADDR, MASTER_PORT where rank 0 of a PyTorch job listens (its init_method env://)
  HORING_ROOT              host:port where rank 0 listens while the communicator is created
  HORING_RUN_SECRET        64 hex digits, new for each run: the secret of the job
  LD_AUDIT                 (with --nccl) what puts horing's libnccl.so.2 in place of another one
  HORING_RUN_NODE, HORING_RUN_NODES, HORING_RUN_INTERFACES   (with --nodes)
  HORING_RUN_RATE_MBIT, HORING_RUN_RATES_MBIT   (with --nodes) the slowest rate at the start; those of the nodes, if they differ

Emulated nodes
  Each has its own network, host name, /dev/shm, System V IPC, processes and /sys/class/net, so nothing gets
  from one to another except over its links: interfaces r0, r1, ... with the addresses 10.77.RAIL.(NODE+1) and
  an MTU of 9000. All of it lives in unnamed namespaces and disappears with horing-run, however that ends. This
  needs the programs ip and tc (package iproute2), and root or user namespaces. If RANKS is not divisible by M,
  the first nodes have one rank more.

Binding
  With --bind-to core each rank, and everything that it starts, runs on one core: on those of the core's hardware
  threads that horing-run itself may run on (taskset, cpusets). If there is a core for each, ranks get them in
  order. More ranks than cores share them, as with mpirun --bind-to core:overload-allowed: each core gets as many
  as any other, or one more, and ranks of different nodes with the same LOCAL_RANK get different cores as far as
  possible. Left unbound, when ranks outnumber cores, one may stay alone on a core and all others on the next,
  since the kernel hardly moves ranks that only yield, and one run takes up to twice as long as another. Leave
  ranks unbound if other programs run, another horing-run included: bound ranks cannot get out of their way, and
  all wait for those whose core is taken. The same holds for programs that compute in several threads.

Exit code: 0 if every rank ended with 0; otherwise that of the rank that failed first (128 + N if signal N
ended it); 124 if --timeout ended the run; 2 for a wrong command line; 3 if the nodes or the ranks could
not be started.
)help";

class UsageFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: horing-run -n RANKS [--nodes M --rate MBIT[,MBIT...] [--rails K] [--uplink "
           "FIRST-LAST=MBIT]] [OPTIONS] -- COMMAND "
           "[ARGUMENTS]\n";
  }
};

// "1000,1000,400". Throws CLI::ValidationError, as whatever reads options does.
std::vector<int> readList(const std::string& option, const std::string& text, int least, int most) {
  std::vector<int> numbers;
  for (const std::string& word : CLI::detail::split(text, ',')) {
    const std::optional<int> number = numberOf<int>(word);
    if (!number || *number < least || *number > most)
      throw CLI::ValidationError(option, "'" + word + "' is not a number from " + std::to_string(least) +
                                             " to " + std::to_string(most));
    numbers.push_back(*number);
  }
  return numbers;
}

// "10:1=200"
RateChange readRateChange(const std::string& text) {
  const size_t colon = text.find(':'), equals = text.find('=', colon == std::string::npos ? 0 : colon);
  if (colon != std::string::npos && equals != std::string::npos) {
    const std::optional<double> at_s = numberOf<double>(text.substr(0, colon));
    const std::optional<int> node = numberOf<int>(text.substr(colon + 1, equals - colon - 1));
    const std::optional<int> rate = numberOf<int>(text.substr(equals + 1));
    if (at_s && *at_s >= 0 && *at_s <= 1e7 && node && *node >= 0 && rate && *rate > 0 &&
        *rate <= kMaxRateMbit)
      return {*at_s, *node, *rate};
  }
  throw CLI::ValidationError("--rate-at", "'" + text + "' is not SECONDS:NODE=MBIT, such as 10:1=200");
}

// "4-7=400"
Uplink readUplink(const std::string& text) {
  const size_t dash = text.find('-'), equals = text.find('=', dash == std::string::npos ? 0 : dash);
  if (dash != std::string::npos && equals != std::string::npos) {
    const std::optional<int> first = numberOf<int>(text.substr(0, dash));
    const std::optional<int> last = numberOf<int>(text.substr(dash + 1, equals - dash - 1));
    const std::optional<int> rate = numberOf<int>(text.substr(equals + 1));
    if (first && *first >= 0 && last && *last >= *first && rate && *rate > 0 && *rate <= kMaxRateMbit)
      return {*first, *last, *rate};
  }
  throw CLI::ValidationError("--uplink", "'" + text + "' is not FIRST-LAST=MBIT, such as 4-7=400");
}

void declareNodes(CLI::App& app, Options& options) {
  app.add_option("-n,--ranks", options.ranks, "Number of ranks")->check(CLI::Range(1, kMaxRanks));
  app.add_option("--nodes", options.nodes,
                 "Spread the ranks in blocks over this many emulated nodes; 0: no emulated nodes")
      ->check(CLI::Range(0, kMaxNodes));
  app.add_option_function<std::string>(
         "--ranks-per-node",
         [&](const std::string& text) {
           options.ranks_of_node = readList("--ranks-per-node", text, 1, kMaxRanks);
         },
         "Ranks of each emulated node, in place of -n and --nodes")
      ->type_name("N,N,...");
  app.add_option_function<std::string>(
         "--rate",
         [&](const std::string& text) { options.rates_mbit = readList("--rate", text, 0, kMaxRateMbit); },
         "Speed of each link in each direction in Mbit/s, or one for the links of each node; 0: unshaped")
      ->type_name("MBIT[,MBIT...]")
      ->default_str("0");
  app.add_option_function<std::vector<std::string>>(
         "--rate-at",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) options.rate_changes.push_back(readRateChange(text));
         },
         "From so many seconds after the start on, the links of this node (from 0) have that speed; may be "
         "given "
         "several times")
      ->type_name("SECONDS:NODE=MBIT")
      ->allow_extra_args(false);
  app.add_option_function<std::vector<std::string>>(
         "--uplink",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) options.uplinks.push_back(readUplink(text));
         },
         "These nodes share a link of this speed to the others, in each direction and on each rail; may be "
         "given several times")
      ->type_name("FIRST-LAST=MBIT")
      ->allow_extra_args(false);
  app.add_option("--rails", options.rails, "Links of each node, each at the full rate")
      ->check(CLI::Range(1, kMaxRails));
}

void declare(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  declareNodes(app, options);
  app.add_option("--shm-mib", options.shm_mib,
                 "Size of each node's /dev/shm in MiB; 0: half of the machine's memory")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option_function<std::string>(
         "--bind-to",
         [&](const std::string& what) { options.bind_to = what == "core" ? BindTo::kCore : BindTo::kNone; },
         "Where each rank may run: on one core, or wherever horing-run may")
      ->check(CLI::IsMember({"core", "none"}))
      ->default_str("none");
  app.add_option("--report-bytes", options.report_path,
                 "Write the byte counters of the nodes' interfaces, before and after, to this file as JSON");
  app.add_option("--timeout", options.timeout_s, "End everything after this many seconds; 0: never")
      ->check(CLI::Range(0.0, 1e7));
  app.add_option("--grace", options.grace_s, "Seconds between SIGTERM and SIGKILL when ranks are ended")
      ->check(CLI::Range(0.0, 1e5));
  app.add_flag_callback(
      "--keep-going", [&] { options.on_failure = OnFailure::kKeepGoing; },
      "Let the other ranks run on if one fails; else they are ended a second later");
  app.add_flag_callback(
      "--tag-output", [&] { options.output = Output::kTagged; },
      "Prefix each line of output with the rank it comes from");
  app.add_flag("--nccl", options.nccl,
               "Give programs made for NCCL horing's libnccl.so.2, whatever path they were linked with");
  app.add_flag_callback(
      "--check-nodes", [&] { options.action = Action::kCheckNodes; },
      "Make two emulated nodes, remove them, and say whether that worked");
}

// Reconciles -n, --nodes, --rate and --ranks-per-node; returns the contradiction, or "".
std::string reconcileNodes(const CLI::App& app, Options& options) {
  const std::vector<int>& given = options.ranks_of_node;
  if (!given.empty()) {
    const int ranks = std::accumulate(given.begin(), given.end(), 0);
    const int nodes = static_cast<int>(given.size());
    if ((app.count("--ranks") > 0 && options.ranks != ranks) ||
        (app.count("--nodes") > 0 && options.nodes != nodes))
      return "--ranks-per-node has " + std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
             " nodes: conflicts with -n or --nodes";
    options.ranks = ranks;
    options.nodes = nodes;
  }
  if (options.ranks > kMaxRanks || options.nodes > kMaxNodes)
    return "at most " + std::to_string(kMaxRanks) + " ranks on " + std::to_string(kMaxNodes) + " nodes";
  if (options.nodes > options.ranks)
    return "--nodes " + std::to_string(options.nodes) + " exceeds -n " + std::to_string(options.ranks) +
           ": each node needs a rank";
  options.spreads_ranks = given.empty();
  if (options.spreads_ranks) options.ranks_of_node = spreadEvenly(options.ranks, std::max(options.nodes, 1));
  return "";
}

std::string reconcileRates(Options& options) {
  std::vector<int>& rates = options.rates_mbit;
  const auto nodes = static_cast<size_t>(options.nodes);
  if (rates.size() > 1 && rates.size() != nodes)
    return "--rate gives " + std::to_string(rates.size()) + " speeds for " + std::to_string(nodes) +
           " nodes: one for all, or one for each";
  if (rates.size() <= 1) rates.assign(nodes, rates.empty() ? 0 : rates.front());
  for (const RateChange& change : options.rate_changes) {
    if (change.node >= options.nodes)
      return "--rate-at speaks of node " + std::to_string(change.node) + ": there are nodes 0 to " +
             std::to_string(options.nodes - 1);
    if (rates[static_cast<size_t>(change.node)] == 0)
      return "--rate-at changes the speed of node " + std::to_string(change.node) +
             ", which has none: give it one with --rate";
  }
  std::stable_sort(options.rate_changes.begin(), options.rate_changes.end(),
                   [](const RateChange& one, const RateChange& other) { return one.at_s < other.at_s; });
  return "";
}

std::string checkUplinks(const Options& options) {
  std::vector<bool> taken(static_cast<size_t>(options.nodes));
  for (const Uplink& uplink : options.uplinks) {
    if (uplink.last_node >= options.nodes)
      return "--uplink speaks of node " + std::to_string(uplink.last_node) + ": there are nodes 0 to " +
             std::to_string(options.nodes - 1);
    for (int node = uplink.first_node; node <= uplink.last_node; ++node) {
      if (taken[static_cast<size_t>(node)])
        return "--uplink gives node " + std::to_string(node) + " two uplinks: one is possible";
      taken[static_cast<size_t>(node)] = true;
    }
  }
  return "";
}

// Checks that CLI11 cannot do; returns the error, or "".
std::string findMisuse(const CLI::App& app, Options& options) {
  if (options.action == Action::kCheckNodes) return "";
  if (options.command.empty()) return "no command given: horing-run -n RANKS -- COMMAND";
  if (const std::string misuse = reconcileNodes(app, options); !misuse.empty()) return misuse;
  const bool network_asked =
      std::any_of(options.rates_mbit.begin(), options.rates_mbit.end(), [](int rate) { return rate > 0; }) ||
      !options.rate_changes.empty() || !options.uplinks.empty() || options.rails > 1 || options.shm_mib > 0 ||
      !options.report_path.empty();
  if (options.nodes == 0 && network_asked)
    return "--rate, --rate-at, --uplink, --rails, --shm-mib and --report-bytes speak of emulated nodes: give "
           "--nodes too";
  if (const std::string misuse = checkUplinks(options); !misuse.empty()) return misuse;
  return reconcileRates(options);
}

}  // namespace

ParseOutcome parseOptions(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "horing-run");
  app.formatter(std::make_shared<UsageFormatter>());
  app.footer(kFooter);
  // The first word that is not an option begins the command, whose options are not parsed.
  app.prefix_command();
  declare(app, options);
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error) == 0 ? 0 : 2};
  }
  options.command = app.remaining();
  const std::string first = options.command.empty() ? "" : options.command.front();
  if (first == "--") options.command.erase(options.command.begin());
  const bool unknown_option = first.starts_with("-") && first != "--";
  const std::string misuse = unknown_option ? "unknown option " + first : findMisuse(app, options);
  if (!misuse.empty()) {
    std::fprintf(stderr, "horing-run: %s\nhoring-run --help has examples.\n", misuse.c_str());
    return {std::nullopt, 2};
  }
  return {options, 0};
}

}  // namespace horing::run
