#include "perf/driver.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "perf/collectives.h"
#include "perf/communicators.h"
#include "perf/gpu_buffers.h"
#include "perf/report_json.h"
#include "perf/sweep.h"
#include "perf/waits.h"

namespace horing::perf {

namespace {

struct Program {
  const CollectiveTest& test;
  std::string name;
  std::vector<std::string> arguments;
  Options options;
  const MetricsFolder* metrics = nullptr;  // null: waits are not asked for
};

constexpr size_t kShownWaits = 3;  // of each rank
// The library writes its metrics every second.
constexpr std::chrono::milliseconds kUntilMetricsAreWritten(1500);

struct PlaceRecord {
  int32_t rank;
  int32_t pid;
  char host[64];
  int32_t gpu;
};

// Of the communicator of openSimulated().
bool isMeasured() {
  const char* const text = std::getenv("HORING_CALIBRATE");
  return !text || std::string(text) == "1";
}

std::string hostName() {
  char name[64] = "";
  (void)gethostname(name, sizeof name - 1);
  return name;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// 0 if it cannot be found out.
uint64_t availableMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib && std::getline(file, rest))
    if (key == "MemAvailable:") return kib * 1024;
  return 0;
}

Result<std::vector<RankPlace>> gatherPlaces(Ranks& ranks, int gpu) {
  PlaceRecord mine{ranks.rank(), static_cast<int32_t>(getpid()), {}, gpu};
  std::snprintf(mine.host, sizeof mine.host, "%s", hostName().c_str());
  HORING_ASSIGN(const std::vector<char> bytes, ranks.gather(&mine, sizeof mine));
  std::vector<RankPlace> places;
  for (int r = 0; r < ranks.size(); ++r) {
    PlaceRecord record;
    std::memcpy(&record, bytes.data() + static_cast<size_t>(r) * sizeof record, sizeof record);
    places.push_back({record.rank, record.pid, record.host, record.gpu});
  }
  return places;
}

// The largest size whose buffers take at most half of the free memory on the fullest host.
Result<uint64_t> fittingBytes(Ranks& ranks, const std::vector<RankPlace>& places, const Options& options) {
  uint64_t neighbours = 0;
  for (const RankPlace& p : places)
    neighbours += p.host == places[static_cast<size_t>(ranks.rank())].host ? 1 : 0;
  const uint64_t available = availableMemoryBytes();
  const uint64_t buffers = options.checks > 0 ? 3 : 2;
  const double mine = available == 0 ? 1e18 : static_cast<double>(available / 2 / neighbours / buffers);
  HORING_ASSIGN(const double least, ranks.least(mine));
  return static_cast<uint64_t>(least);
}

std::string memoryText(horingComm_t comm, uint64_t buffer_bytes) {
  uint64_t communicator_bytes = 0;
  if (horingCommMemoryBytes(comm, &communicator_bytes) != horingSuccess) return "";
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return formatString(
      "# Host memory usage of a rank : Communicator %.2f MiB | User-Allocated %.2f MiB | Total %.2f MiB\n#\n",
      mib(communicator_bytes), mib(buffer_bytes), mib(communicator_bytes + buffer_bytes));
}

// One rank from its communicator to the last row. A resource of its thread.
class RankRun {
 public:
  RankRun(const Program& program, Ranks ranks)
      : program_(program), ranks_(ranks), options_(program.options) {}

  int run() {
    Status status = prepare();
    Sweep sweep(program_.test, options_, ranks_, gpu_.get(), simulated_);
    const bool prepared = exit_code_ == kExitOk;
    if (status.ok() && prepared) {
      status = sweep.run([this](const Row& row) { show(row); });
      report_.totals = sweep.totals();
      if (status.ok() && !(report_.totals.dataOk() && report_.totals.bandwidthOk()))
        exit_code_ = kExitWrongData;
      if (status.ok() && program_.metrics) status = gatherWaits();
    }
    if (!status.ok()) fail(status);
    if (first() && prepared) conclude(sweep);
    for (const horingComm_t comm : {simulated_, ranks_.comm()})
      if (comm) (void)(status.ok() ? horingCommDestroy(comm) : horingCommAbort(comm));
    return exit_code_;
  }

 private:
  bool first() const { return ranks_.rank() == 0; }

  Status prepare() {
    report_.arguments = program_.arguments;
    report_.start_time = timeOfDay();
    (void)horingGetVersion(&report_.library_version);
    if (options_.on_gpu) {
      HORING_ASSIGN(gpu_, Gpu::ofRank(ranks_.rank()));
    }
    HORING_ASSIGN(report_.places, gatherPlaces(ranks_, gpu_ ? gpu_->device() : -1));
    HORING_ASSIGN(const uint64_t fitting, fittingBytes(ranks_, report_.places, options_));
    if (const Status possible = checkJob(fitting); !possible.ok()) {
      exit_code_ = kExitInvalidUsage;
      if (first()) std::fprintf(stderr, "%s: %s\n", program_.name.c_str(), possible.message().c_str());
      return ranks_.barrier();  // a launcher may end all ranks when the first ends: rank 0 has spoken by then
    }
    if (options_.explain != Explain::kNothing) {
      HORING_ASSIGN(simulated_, openSimulated(ranks_));
    }
    HORING_TRY(openOutput());
    if (exit_code_ != kExitOk) return {};
    if (first())
      print(headerText(program_.name.c_str(), options_, report_.library_version) +
            placesText(report_.places));
    if (fitting < options_.max_bytes) {
      options_.max_bytes = fitting;
      options_.min_bytes = std::min(options_.min_bytes, fitting);
      if (first())
        print(formatString("# Reducing maxBytes to %llu due to memory limitation\n",
                           static_cast<unsigned long long>(fitting)));
    }
    if (first()) print("#\n" + columnsText(options_));
    return {};
  }

  // Not collective: every rank comes to the same conclusion.
  Status checkJob(uint64_t fitting_bytes) const {
    const int ranks = ranks_.size();
    if (program_.test.rooted() && options_.root >= ranks)
      return makeStatus(Code::kInvalidUsage, "-r,--root %d: there are ranks 0 .. %d only", options_.root,
                        ranks - 1);
    if (program_.test.power_of_two && (ranks & (ranks - 1)) != 0)
      return makeStatus(Code::kInvalidUsage, "there are %d ranks: expected a power of two", ranks);
    const Traffic& traffic = options_.traffic;
    if (!program_.test.by_traffic || !traffic.fromFile()) return {};
    if (traffic.matrixRanks() < ranks)
      return makeStatus(Code::kInvalidUsage, "the matrix is for %d ranks, there are %d",
                        traffic.matrixRanks(), ranks);
    const uint64_t needed = program_.test.layout({DataType::kInt8, ranks, ranks_.rank(), 0, &traffic}).bytes;
    const uint64_t most = std::min(options_.max_bytes, fitting_bytes);
    if (options_.min_bytes == options_.max_bytes && needed <= most) return {};
    return makeStatus(
        Code::kInvalidUsage,
        "with a matrix --minbytes and --maxbytes must be the same, and be at least the %llu bytes that a "
        "rank sends or receives (and fit into memory)",
        static_cast<unsigned long long>(needed));
  }

  // Rank 0 makes the file before anything is measured; if it cannot, every rank ends.
  Status openOutput() {
    double failed = 0;
    if (first() && !options_.output_file.empty()) {
      Result<Fd> file = createNewFile(options_.output_file);
      if (file.ok()) output_ = file.take();
      if (!output_.valid())
        std::fprintf(stderr, "%s: -J,--output_file: %s\n", program_.name.c_str(),
                     file.status().message().c_str());
      failed = output_.valid() ? 0 : 1;
    }
    HORING_ASSIGN(failed, ranks_.most(failed));
    if (failed != 0) exit_code_ = kExitInternal;
    return {};
  }

  // Ends the communicator for predictions, whose file of metrics has the same rank and process.
  Status gatherWaits() {
    HORING_TRY(called(horingCommDestroy(std::exchange(simulated_, nullptr)), nullptr, "horingCommDestroy"));
    HORING_TRY(ranks_.barrier());
    std::this_thread::sleep_for(kUntilMetricsAreWritten);
    std::vector<Wait> mine = program_.metrics->waitsOf(ranks_.rank());
    mine.resize(kShownWaits);
    HORING_ASSIGN(const std::vector<char> bytes, ranks_.gather(mine.data(), kShownWaits * sizeof(Wait)));
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<Wait>& waits = report_.waits.emplace_back(kShownWaits);
      std::memcpy(waits.data(), bytes.data() + static_cast<size_t>(rank) * kShownWaits * sizeof(Wait),
                  kShownWaits * sizeof(Wait));
      std::erase_if(waits, [](const Wait& wait) { return wait.peer < 0; });
    }
    return {};
  }

  void show(const Row& row) {
    print(rowText(row));
    report_.rows.push_back(row);
  }

  void fail(const Status& status) {
    exit_code_ = status.code() == Code::kTimeout ? kExitTimeout : kExitLibrary;
    report_.errors.push_back(status.message());
    print(formatString("%s: Test HORING failure %s rank %d %s\n .. %s pid %d: Test failure\n",
                       hostName().c_str(), program_.name.c_str(), ranks_.rank(), status.message().c_str(),
                       hostName().c_str(), static_cast<int>(getpid())));
  }

  void conclude(const Sweep& sweep) {
    if (report_.errors.empty()) {
      if (options_.explain != Explain::kNothing) print(explanationText(report_.rows, isMeasured()));
      if (options_.explain == Explain::kRanks)
        print(rankTimesText(report_.rows, report_.places) + waitsText(report_.waits));
      print(footerText(program_.name.c_str(), report_.totals));
      if (options_.memory) print(memoryText(ranks_.comm(), sweep.bufferBytes()));
    }
    if (!output_.valid()) return;
    report_.end_time = timeOfDay();
    const Status written = writeAll(output_, reportJson(report_, options_));
    if (written.ok()) return;
    std::fprintf(stderr, "%s: %s: %s\n", program_.name.c_str(), options_.output_file.c_str(),
                 written.message().c_str());
    exit_code_ = kExitInternal;
  }

  const Program& program_;
  Ranks ranks_;
  Options options_;
  horingComm_t simulated_ = nullptr;  // for predictions, if they are asked for
  std::unique_ptr<Gpu> gpu_;          // null: buffers are on the host
  RunReport report_;
  Fd output_;
  int exit_code_ = kExitOk;
};

int runRank(const Program& program, horingComm_t comm) {
  Result<Ranks> ranks = Ranks::of(comm);
  if (!ranks.ok()) return kExitLibrary;
  return RankRun(program, ranks.take()).run();
}

int runThreads(const Program& program, const std::vector<horingComm_t>& comms) {
  std::vector<int> codes(comms.size(), kExitOk);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < comms.size(); ++i)
    threads.emplace_back([&, i] { codes[i] = runRank(program, comms[i]); });
  for (std::thread& thread : threads) thread.join();
  for (const int code : codes)
    if (code != kExitOk) return code;
  return kExitOk;
}

}  // namespace

int perfMain(const char* collective, int argc, const char* const* argv) {
  const CollectiveTest& test = collectiveTest(collective);
  const std::string program = std::string(test.name) + "_perf";
  ParsedOptions parsed = parseOptions(program.c_str(), argc, argv);
  if (!parsed.options) return parsed.exit_code;
  if (parsed.options->timeout_s > 0)
    setenv("HORING_TIMEOUT_MS", std::to_string(int64_t{1000} * parsed.options->timeout_s).c_str(), 1);
  Program described = {test, program, {argv, argv + argc}, *parsed.options};
  std::optional<MetricsFolder> metrics;
  if (described.options.explain == Explain::kRanks) {
    Result<MetricsFolder> opened = MetricsFolder::open();
    if (!opened.ok()) {
      std::fprintf(stderr, "%s: --explain=ranks: %s\n", program.c_str(), opened.status().message().c_str());
      return kExitInternal;
    }
    described.metrics = &metrics.emplace(opened.take());
    (void)horingSetDefault("HORING_METRICS", metrics->path().c_str());
  }
  Result<std::vector<horingComm_t>> comms = openCommunicators(described.options);
  if (!comms.ok()) {
    print(formatString("%s: Test HORING failure %s %s\n .. %s pid %d: Test failure\n", hostName().c_str(),
                       program.c_str(), comms.status().message().c_str(), hostName().c_str(),
                       static_cast<int>(getpid())));
    return comms.status().code() == Code::kTimeout ? kExitTimeout : kExitLibrary;
  }
  return runThreads(described, comms.value());
}

}  // namespace horing::perf
