#include "perf/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/byte_size.h"
#include "base/wrong_usage.h"
#include "perf/gpu_buffers.h"

extern char** environ;

namespace horing::perf {

namespace {

constexpr const char* kTypeLabels[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                 "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
constexpr const char* kDevicesOnly = "is not supported";
constexpr int kMaxRanks = 1024;  // of a process

// Values as they were typed, before they are checked against each other.
struct Raw {
  std::string min_bytes = "32M";
  std::string max_bytes = "32M";
  std::string step_bytes = "1M";
  std::string type = "float";
  std::string op = "sum";
  int blocking = 0;
  int null_stream = 0;
  int registration = 0;
  int cta_policy = 0;
  int device_implementation = 0;
  int device_ctas = 16;
  int parallel_init = 0;
  int cpu_time = 0;
  int time_of = 1;
  int timestamps = 0;
  int memory = 0;
  int per_iteration = 0;
  std::string buffers = "auto";
  std::string explain;
};

void addSweep(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("-t,--nthreads", options.threads, "ranks in this process, each a thread")
      ->check(CLI::Range(1, kMaxRanks));
  app.add_option("-g,--ngpus", options.gpus, "ranks for each of these threads; here each is a thread, too")
      ->check(CLI::Range(1, kMaxRanks));
  app.add_option("-b,--minbytes", raw.min_bytes, "first size; K, M and G are powers of 1024");
  app.add_option("-e,--maxbytes", raw.max_bytes, "last size");
  app.add_option("-i,--stepbytes", raw.step_bytes, "fixed step between sizes");
  app.add_option("-f,--stepfactor", options.step_factor, "factor between sizes; 1: fixed steps")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-n,--iters", options.iterations, "timed iterations")->check(CLI::Range(1, 1 << 30));
  app.add_option("-m,--agg_iters", options.aggregated, "operations per iteration")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-w,--warmup_iters", options.warmup, "untimed iterations before the timed ones")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-N,--run_cycles", options.cycles, "how often the sweep runs; 0: endlessly")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-c,--check", options.checks, "number of iterations whose results are checked; 0: none")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-o,--op", raw.op, "sum|prod|min|max|avg|all; for integers also band|bor|bxor");
  app.add_option("-r,--root", options.root,
                 "root of broadcast, reduce, gather and scatter; -1: each rank in turn")
      ->check(CLI::Range(-1, 1 << 30));
  app.add_option("-d,--datatype", raw.type,
                 "int8|uint8|int32|uint32|int64|uint64|half|float|double|bfloat16|f8e4m3|f8e5m2|all");
}

void addManner(CLI::App& app, Raw& raw, Options& options) {
  const auto flag = CLI::Range(0, 1);
  app.add_option("-p,--parallel_init", raw.parallel_init, "1: each thread makes its own communicator")
      ->check(flag);
  app.add_option("-T,--timeout", options.timeout_s,
                 "timeout of one collective in seconds; 0: HORING_TIMEOUT_MS")
      ->check(CLI::Range(0, 86400));
  app.add_option("-C,--report_cputime", raw.cpu_time,
                 "1: report CPU time of the rank's thread instead of latency")
      ->check(flag);
  app.add_option("-a,--average", raw.time_of,
                 "whose time is reported: 0 rank 0, 1 average, 2 fastest rank, 3 slowest rank")
      ->check(CLI::Range(0, 3));
  app.add_option("-S,--report_timestamps", raw.timestamps, "1: end each line with the time of day")
      ->check(flag);
  app.add_option("-J,--output_file", options.output_file,
                 "write results to this .json file; an existing file is kept, .0, .1 appended");
  app.add_option(
         "-R,--local_register", raw.registration,
         "1, 2: registered buffers from horingMemAlloc, which peers on the same node read in place, and "
         "RDMA moves in place")
      ->check(CLI::Range(0, 2));
  app.add_option("-G,--cudagraph", options.graph,
                 "launches of an iteration; on host memory, where there are no graphs, as many calls")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--buffers", raw.buffers,
                 "host|cuda|auto: where buffers are; auto: on GPUs if there are any")
      ->check(CLI::IsMember({"host", "cuda", "auto"}));
  app.add_option("-M,--memory", raw.memory, "1: report the memory of communicators and buffers")->check(flag);
  app.add_flag(
         "--explain{rows}", raw.explain,
         "afterwards compare each size with what the simulator predicts for this machine, which is "
         "measured first, and say what bounds it; --explain=ranks: also show the times of each rank, as -I 1 "
         "takes them")
      ->check(CLI::IsMember({"rows", "ranks"}));
  app.add_option(
         "--rest", options.rest_ms,
         "milliseconds of rest before the timed iterations, for shaped links that let a burst through "
         "after a rest")
      ->check(CLI::Range(0, 60'000));
  app.add_option("-u,--unalign", options.unalign, "shift buffers by this many elements")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-I,--per_iter_timing", raw.per_iteration, "1: time each iteration (of the slowest rank)")
      ->check(flag);
  app.add_option("-K,--per_iter_skip", options.per_iteration_skip,
                 "iterations at the start that -I leaves out")
      ->check(CLI::Range(0, 1 << 30));
}

void addForCompatibility(CLI::App& app, Raw& raw) {
  const char* group = "Accepted for compatibility";
  app.add_option("-z,--blocking", raw.blocking,
                 "no effect: calls block on host memory, and return at once on GPUs")
      ->check(CLI::Range(0, 3))
      ->group(group);
  app.add_option("-y,--stream_null", raw.null_stream,
                 "no effect: NULL for host memory, a separate stream on a GPU")
      ->check(CLI::Range(0, 1))
      ->group(group);
  app.add_option("-V,--device_cta_count", raw.device_ctas, "no effect")
      ->check(CLI::Range(1, 128))
      ->group(group);
  app.add_option("-x,--cta_policy", raw.cta_policy, "no effect")->check(CLI::Range(0, 2))->group(group);
  app.add_option("-D,--device_implementation", raw.device_implementation, "must be 0")->group(group);
}

Status refuseDeviceOptions(const Raw& raw) {
  if (raw.device_implementation != 0)
    return makeStatus(Code::kInvalidUsage, "-D,--device_implementation %d %s: expected 0",
                      raw.device_implementation, kDevicesOnly);
  return {};
}

Status chooseTypes(const std::string& text, Options& options) {
  options.types.clear();
  for (int t = 0; t < kDataTypes; ++t)
    if (text == "all" || text == kTypeLabels[t]) options.types.push_back(static_cast<DataType>(t));
  if (!options.types.empty()) return {};
  return makeStatus(Code::kInvalidUsage, "-d,--datatype '%s': expected a type that --help names, or all",
                    text.c_str());
}

Status chooseOps(const std::string& text, Options& options) {
  options.ops.clear();
  if (text == "mulsum")
    return makeStatus(Code::kInvalidUsage, "-o,--op mulsum is not measured: it runs as avg does");
  for (const RedOp op : {RedOp::kSum, RedOp::kProd, RedOp::kMin, RedOp::kMax, RedOp::kAvg, RedOp::kBitAnd,
                         RedOp::kBitOr, RedOp::kBitXor})
    if (text == "all" || text == redOpName(op)) options.ops.push_back(op);
  for (const DataType type : options.types)
    for (const RedOp op : options.ops)
      if (hasRedOp(type, op)) return {};
  if (!options.ops.empty())
    return makeStatus(Code::kInvalidUsage, "-o,--op %s works on integers: expected such a type with -d",
                      text.c_str());
  return makeStatus(Code::kInvalidUsage,
                    "-o,--op '%s': expected sum, prod, min, max, avg, band, bor, bxor or all", text.c_str());
}

Status chooseSizes(const Raw& raw, Options& options) {
  HORING_ASSIGN(options.min_bytes, parseBytes(raw.min_bytes));
  HORING_ASSIGN(options.max_bytes, parseBytes(raw.max_bytes));
  HORING_ASSIGN(options.step_bytes, parseBytes(raw.step_bytes));
  if (options.min_bytes > options.max_bytes)
    return makeStatus(Code::kInvalidArgument, "--minbytes %s is larger than --maxbytes %s",
                      raw.min_bytes.c_str(), raw.max_bytes.c_str());
  if (options.step_factor == 1 && options.step_bytes == 0)
    return makeStatus(Code::kInvalidArgument, "--stepbytes 0 would never reach --maxbytes");
  if (options.step_factor > 1 && options.min_bytes == 0)
    return makeStatus(Code::kInvalidArgument, "--minbytes 0 never grows by --stepfactor %d",
                      options.step_factor);
  return {};
}

Status checkOutput(const std::string& name) {
  if (name.empty() || name.ends_with(".json")) return {};
  return makeStatus(Code::kInvalidUsage, "-J,--output_file '%s': expected a name that ends in .json",
                    name.c_str());
}

constexpr const char* kMinBandwidth = "HORING_TESTS_MIN_BW";
constexpr const char* kSpread = "HORING_TESTS_ALLTOALLV_SPREAD";
constexpr const char* kMatrixFile = "HORING_TESTS_ALLTOALLV_MATRIX_FILE";
constexpr const char* kMatrixScale = "HORING_TESTS_ALLTOALLV_MATRIX_SCALE";

Status refuseUnknownVariables() {
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("HORING_TESTS_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    if (name == kMinBandwidth || name == kSpread || name == kMatrixFile || name == kMatrixScale) continue;
    return makeStatus(
        Code::kInvalidUsage, "environment variable %.*s is not known: only %s, %s, %s and %s are",
        static_cast<int>(name.size()), name.data(), kMinBandwidth, kSpread, kMatrixFile, kMatrixScale);
  }
  return {};
}

// A number that is not negative, `otherwise` if the variable is not set.
Result<double> numberFromEnvironment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end != text && *end == '\0' && value >= 0) return value;
  return makeStatus(Code::kInvalidUsage, "environment variable %s=%s: expected a number, 0 or more", name,
                    text);
}

Status readEnvironment(Options& options) {
  HORING_TRY(refuseUnknownVariables());
  HORING_ASSIGN(options.min_bandwidth, numberFromEnvironment(kMinBandwidth, -1));
  HORING_ASSIGN(const double spread, numberFromEnvironment(kSpread, 1));
  HORING_ASSIGN(const double scale, numberFromEnvironment(kMatrixScale, 1));
  if (spread > 1) return makeStatus(Code::kInvalidUsage, "environment variable %s: expected 0 .. 1", kSpread);
  options.traffic = Traffic(spread);
  const char* file = std::getenv(kMatrixFile);
  if (file) {
    HORING_ASSIGN(options.traffic, Traffic::fromFile(file, scale));
  }
  return {};
}

Status finish(const Raw& raw, Options& options) {
  HORING_TRY(refuseDeviceOptions(raw));
  if (options.ranks() > kMaxRanks)
    return makeStatus(Code::kInvalidUsage, "-t,--nthreads %d times -g,--ngpus %d: expected %d at most",
                      options.threads, options.gpus, kMaxRanks);
  HORING_TRY(chooseTypes(raw.type, options));
  HORING_TRY(chooseOps(raw.op, options));
  HORING_TRY(checkOutput(options.output_file));
  options.parallel_init = raw.parallel_init == 1;
  options.cpu_time = raw.cpu_time == 1;
  options.time_of = static_cast<TimeOf>(raw.time_of);
  options.timestamps = raw.timestamps == 1;
  options.memory = raw.memory == 1;
  options.registers = raw.registration > 0;
  options.on_gpu = raw.buffers == "cuda" || (raw.buffers == "auto" && !options.registers && hasGpu());
  if (options.on_gpu && options.registers)
    return makeStatus(Code::kInvalidUsage, "-R,--local_register %d goes with --buffers host only",
                      raw.registration);
  if (options.on_gpu && options.graph > 0)
    return makeStatus(Code::kInvalidUsage, "-G,--cudagraph %d goes with --buffers host only", options.graph);
  options.explain = raw.explain.empty()      ? Explain::kNothing
                    : raw.explain == "ranks" ? Explain::kRanks
                                             : Explain::kRows;
  options.per_iteration = raw.per_iteration == 1 || options.explain == Explain::kRanks;
  if (options.per_iteration && options.per_iteration_skip >= options.iterations)
    return makeStatus(Code::kInvalidUsage, "-K,--per_iter_skip %d leaves nothing of %d iterations",
                      options.per_iteration_skip, options.iterations);
  return readEnvironment(options);
}

ParsedOptions refused(const char* program, const Status& status, int exit_code) {
  std::fprintf(stderr, "%s: %s (--help shows all options)\n", program, status.message().c_str());
  return {std::nullopt, exit_code};
}

std::string examplesOf(const char* program) {
  return formatString(R"(Examples
  8 bytes to 64 MiB, doubling, on four ranks that are threads of this process:
      %s -t 4 -b 8 -e 64M -f 2
  Four ranks as processes; eight on two emulated nodes with links of 1000 Mbit/s:
      horing-run -n 4 -- %s -b 8 -e 64M -f 2
      horing-run -n 8 --nodes 2 --rate 1000 -- %s -b 16M -e 16M
  With buffers that ranks on the same node read in place, and networks move without a copy:
      horing-run -n 4 -- %s -b 1M -e 64M -f 2 -R 1
)",
                      program, program, program, program);
}

}  // namespace

const char* typeLabel(DataType type) {
  return kTypeLabels[static_cast<int>(type)];
}

std::vector<uint64_t> Options::sizes() const {
  std::vector<uint64_t> all;
  for (uint64_t bytes = min_bytes; bytes <= max_bytes;) {
    all.push_back(bytes);
    bytes = step_factor > 1 ? bytes * static_cast<uint64_t>(step_factor) : bytes + step_bytes;
  }
  return all;
}

ParsedOptions parseOptions(const char* program, int argc, const char* const* argv) {
  Options options;
  Raw raw;
  CLI::App app(
      std::string(
          "Times a collective of horing, on GPUs where there are any, else on host memory. Ranks are the "
          "threads\n"
          "of this process, times the processes that horing-run, mpirun, srun or torchrun started.\n"
          "Exit codes: 0 ok, 1 internal, 3 library error, 4 timeout, 6 invalid usage, 7 wrong data or below\n"
          "HORING_TESTS_MIN_BW (GB/s), 255 bad size."),
      program);
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
  app.footer(examplesOf(program));
  addSweep(app, raw, options);
  addManner(app, raw, options);
  addForCompatibility(app, raw);
  for (CLI::Option* option : app.get_options())
    if (option->get_expected_max() == 1) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  nameProgramInErrors(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error) == 0 ? kExitOk : kExitInvalidUsage};
  }
  const Status usage = finish(raw, options);
  if (!usage.ok()) return refused(program, usage, kExitInvalidUsage);
  const Status sizes = chooseSizes(raw, options);
  if (!sizes.ok()) return refused(program, sizes, kExitBadSize);
  return {options, kExitOk};
}

}  // namespace horing::perf
