#include "perf/report_json.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "horing/horing.h"

extern char** environ;

namespace horing::perf {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSameName = 10000;
constexpr std::string_view kShownNames[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "OMP_NUM_THREADS",
};
constexpr std::string_view kSecretWords[] = {"SECRET", "KEY", "TOKEN", "PASS", "CREDENTIAL", "AUTH"};

bool isShown(std::string_view name) {
  if (name.starts_with("HORING_")) return true;
  for (const std::string_view shown : kShownNames)
    if (name == shown) return true;
  return false;
}

bool isSecret(std::string_view name) {
  for (const std::string_view word : kSecretWords)
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

const char* asText(bool flag) {
  return flag ? "true" : "false";
}

Json devicesJson(const std::vector<RankPlace>& places) {
  Json devices = Json::array();
  for (const RankPlace& p : places)
    devices.push_back({{"rank", p.rank},
                       {"group", 0},
                       {"pid", p.pid},
                       {"hostname", p.host},
                       {"device", std::max(p.gpu, 0)},
                       {"device_hex", p.gpu < 0 ? "host" : "cuda"},
                       {"device_info", p.gpu < 0 ? "host memory" : "GPU memory"}});
  return devices;
}

Json configJson(const RunReport& report, const Options& o) {
  Json config = {{"nthreads", o.threads},
                 {"ngpus", o.gpus},
                 {"minimum_bytes", o.min_bytes},
                 {"maximum_bytes", o.max_bytes}};
  if (o.step_factor > 1)
    config["step_factor"] = o.step_factor;
  else
    config["step_bytes"] = o.step_bytes;
  config["warmup_iters"] = o.warmup;
  config["iterations"] = o.iterations;
  config["aggregated_iterations"] = o.aggregated;
  config["validation"] = o.checks;
  config["graph"] = o.graph;
  config["blocking_collectives"] = asText(!o.on_gpu);
  config["per_iter_timing"] = asText(o.per_iteration);
  config["per_iter_skip"] = o.per_iteration_skip;
  config["parallel_init"] = asText(o.parallel_init);
  config["devices"] = devicesJson(report.places);
  return config;
}

Json halfJson(const Measurement& m, const Options& options) {
  Json half = {{options.cpu_time ? "cpu_time" : "time", m.time_us},
               {"alg_bw", m.algorithm_bandwidth},
               {"bus_bw", m.bus_bandwidth}};
  half["nwrong"] = m.wrong ? Json(*m.wrong) : Json();
  return half;
}

Json iterationsJson(const IterationTimes& t, const Options& options) {
  return {{"skipped_iterations", options.per_iteration_skip},
          {"min_us", t.least()},
          {"max_us", t.most()},
          {"avg_us", t.average()},
          {"p50_us", t.percentile(50)},
          {"p95_us", t.percentile(95)},
          {"p99_us", t.percentile(99)},
          {"stdev_us", t.deviation()},
          {"cv_pct", t.variationPercent()},
          {"times_us", t.times_us},
          {"per_process_max_times_us", t.by_rank_us}};
}

Json waitsJson(const std::vector<std::vector<Wait>>& by_rank) {
  Json all = Json::array();
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const Wait& wait : by_rank[rank])
      all.push_back(
          {{"rank", rank}, {"for_rank", wait.peer}, {"data_s", wait.data_s}, {"room_s", wait.room_s}});
  return all;
}

Json rowJson(const Row& row, const Options& options) {
  Json out = {{"size", row.bytes},
              {"count", row.count},
              {"type", row.type},
              {"redop", row.op},
              {"root", std::to_string(row.root)}};
  out["out_of_place"] = halfJson(row.out_of_place, options);
  if (row.out_of_place.iterations)
    out["out_of_place_per_iter"] = iterationsJson(*row.out_of_place.iterations, options);
  out["in_place"] = row.in_place ? halfJson(*row.in_place, options) : Json();
  if (row.in_place && row.in_place->iterations)
    out["in_place_per_iter"] = iterationsJson(*row.in_place->iterations, options);
  if (row.predicted) {
    const std::optional<double> reached = partReached(row);
    out["predicted"] = {{"time", row.predicted->us},
                        {"reached_pct", reached ? Json(100 * *reached) : Json()},
                        {"bounded_by", row.predicted->bottleneck}};
  }
  out["actual_iterations"] = options.iterations;
  out["experiment_name"] = "";
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> shownEnvironment(const char* const* environment) {
  std::vector<std::pair<std::string, std::string>> shown;
  for (; environment && *environment; ++environment) {
    const std::string_view text = *environment;
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || !isShown(name)) continue;
    shown.emplace_back(name,
                       isSecret(name) ? std::string("<redacted>") : std::string(text.substr(equals + 1)));
  }
  return shown;
}

std::string reportJson(const RunReport& report, const Options& options) {
  Json env = Json::array();
  for (const auto& [name, value] : shownEnvironment(environ)) env.push_back(name + "=" + value);
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(rowJson(row, options));
  const Totals& totals = report.totals;
  Json bandwidth = {{"bandwidth", totals.average_bandwidth}};
  bandwidth["okay"] = totals.min_bandwidth < 0 ? Json("unchecked") : Json(asText(totals.bandwidthOk()));
  Json all = {{"version", 3}, {"start_time", report.start_time}, {"args", report.arguments}, {"env", env}};
  all["nccl_version"] = report.library_version;  // the schema's name, so that its readers find it
  all["config"] = configJson(report, options);
  all["results"] = rows;
  if (!report.waits.empty()) all["waits"] = waitsJson(report.waits);
  all["out_of_bounds"] = {{"count", totals.wrong.value_or(0)}, {"okay", asText(totals.dataOk())}};
  all["average_bus_bandwidth"] = bandwidth;
  all["errors"] = report.errors;
  all["end_time"] = report.end_time;
  // Bytes that are no UTF-8 (arguments may hold anything) become a replacement character.
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Fd> createNewFile(const std::string& name) {
  std::string candidate = name;
  for (int attempt = 0; attempt < kMaxSameName; ++attempt) {
    Fd fd(::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd.valid()) return fd;
    if (errno != EEXIST) return systemError(errno, "cannot create %s", candidate.c_str());
    candidate = formatString("%s.%d", name.c_str(), attempt);
  }
  return makeStatus(Code::kSystemError, "%s and %d more of that name exist", name.c_str(), kMaxSameName - 1);
}

Status writeAll(const Fd& fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return systemError(errno, "cannot write the results");
    done += static_cast<size_t>(wrote);
  }
  return {};
}

std::string timeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace horing::perf
