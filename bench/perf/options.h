#pragma once
// The command line of the *_perf programs: the options of nccl-tests, as far as they mean something here.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "perf/traffic.h"

namespace horing::perf {

// Exit codes of nccl-tests.
inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitLibrary = 3;
inline constexpr int kExitTimeout = 4;
inline constexpr int kExitInvalidUsage = 6;
inline constexpr int kExitWrongData = 7;  // or below HORING_TESTS_MIN_BW
inline constexpr int kExitBadSize = 255;

// Next to the measurements: nothing, the simulator's predictions, or also the times of each rank.
enum class Explain : int { kNothing, kRows, kRanks };

enum class TimeOf : int { kRank0 = 0, kAverage = 1, kMinimum = 2, kMaximum = 3 };

struct Options {
  int threads = 1;
  int gpus = 1;  // ranks of each thread, as far as nccl-tests counts; here each is a thread
  uint64_t min_bytes = 32u << 20;
  uint64_t max_bytes = 32u << 20;
  uint64_t step_bytes = 1u << 20;
  int step_factor = 1;  // 1: step_bytes is used instead
  int iterations = 20;
  int aggregated = 1;  // operations of one launch
  int graph = 0;       // launches of one iteration, as a graph has them; 0: one
  int warmup = 1;
  int cycles = 1;  // 0: without end
  int checks = 1;
  int rest_ms = 0;  // before the timed iterations
  bool parallel_init = false;
  std::vector<DataType> types = {DataType::kFloat32};
  std::vector<RedOp> ops = {RedOp::kSum};
  int root = 0;       // -1: each rank in turn; of no effect where there is none
  int timeout_s = 0;  // 0: the library's own
  bool cpu_time = false;
  TimeOf time_of = TimeOf::kAverage;
  bool timestamps = false;
  bool memory = false;
  bool registers = false;  // buffers from horingMemAlloc
  bool on_gpu = false;     // buffers on GPUs
  int unalign = 0;         // elements
  Explain explain = Explain::kNothing;
  bool per_iteration = false;
  int per_iteration_skip = 0;
  std::string output_file;
  double min_bandwidth = -1;  // GB/s; negative: not asked for
  Traffic traffic;            // of alltoallv

  // Of this process.
  int ranks() const { return threads * gpus; }
  // Of one iteration.
  int operations() const { return aggregated * (graph > 0 ? graph : 1); }
  // Bytes of the sweep, ascending.
  std::vector<uint64_t> sizes() const;
};

// Options to run with, or none and the exit code to end with (after the message was printed).
struct ParsedOptions {
  std::optional<Options> options;
  int exit_code = kExitOk;
};

// Also reads HORING_TESTS_MIN_BW and, for alltoallv, HORING_TESTS_ALLTOALLV_SPREAD, _MATRIX_FILE and _MATRIX_SCALE; any
// other HORING_TESTS_ variable is refused.
ParsedOptions parseOptions(const char* program, int argc, const char* const* argv);

const char* typeLabel(DataType type);  // as nccl-tests prints it: "float", "half"

}  // namespace horing::perf
