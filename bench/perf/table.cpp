#include "perf/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"
#include "horing/horing.h"

namespace horing::perf {

namespace {

constexpr int kLeadWidth = 12 + 2 + 12 + 2 + 8 + 2 + 6 + 2 + 6;

std::string halfTitle(const char* title, int width) {
  const int length = static_cast<int>(std::string(title).size());
  const int left = (width - length) / 2;
  return formatString("%*s%s%*s", left, "", title, width - length - left, "");
}

std::string halfText(const Measurement& m) {
  std::string wrong = "N/A";
  if (m.wrong) wrong = formatString("%g", static_cast<double>(*m.wrong));
  std::string text = formatString("  %7s  %6s  %6s  %6s", fitNumber(m.time_us, 7).c_str(),
                                  fitNumber(m.algorithm_bandwidth, 6).c_str(),
                                  fitNumber(m.bus_bandwidth, 6).c_str(), wrong.c_str());
  if (!m.iterations) return text;
  const IterationTimes& t = *m.iterations;
  return text + formatString("  %7s  %7s  %7s  %6s", fitNumber(t.least(), 7).c_str(),
                             fitNumber(t.most(), 7).c_str(), fitNumber(t.percentile(99), 7).c_str(),
                             fitNumber(t.variationPercent(), 6).c_str());
}

// Replaces a half that cannot be measured, next to `other`.
std::string noHalfLike(const Measurement& other) {
  const char* no = "N/A";
  std::string text = formatString("  %7s  %6s  %6s  %6s", no, no, no, no);
  if (other.iterations) text += formatString("  %7s  %7s  %7s  %6s", no, no, no, no);
  return text;
}

}  // namespace

double IterationTimes::least() const {
  return *std::min_element(times_us.begin(), times_us.end());
}
double IterationTimes::most() const {
  return *std::max_element(times_us.begin(), times_us.end());
}
double IterationTimes::average() const {
  return std::accumulate(times_us.begin(), times_us.end(), 0.0) / static_cast<double>(times_us.size());
}
double IterationTimes::deviation() const {
  const double mean = average();
  double squares = 0;
  for (const double t : times_us) squares += (t - mean) * (t - mean);
  return std::sqrt(squares / static_cast<double>(times_us.size()));
}
double IterationTimes::percentile(int p) const {
  std::vector<double> sorted = times_us;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<size_t>(std::ceil(p / 100.0 * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(at, 1) - 1];
}
double IterationTimes::variationPercent() const {
  return average() > 0 ? 100 * deviation() / average() : 0;
}

std::string fitNumber(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = formatString("%.*f", decimals, value);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return formatString("%.*e", std::max(0, width - 6), value);
}

std::string headerText(const char* program, const Options& o, int library_version) {
  std::string text =
      formatString("# horing version %d.%d.%d horing-headers=%d horing-library=%d\n", HORING_MAJOR,
                   HORING_MINOR, HORING_PATCH, HORING_VERSION_CODE, library_version);
  text += formatString("# Collective test starting: %s\n", program);
  const std::string step = o.step_factor > 1
                               ? formatString("%d(factor)", o.step_factor)
                               : formatString("%llu(bytes)", static_cast<unsigned long long>(o.step_bytes));
  text += formatString(
      "# nThread %d nGpus %d minBytes %llu maxBytes %llu step: %s warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: %d unalign: %d\n#\n",
      o.threads, o.gpus, static_cast<unsigned long long>(o.min_bytes),
      static_cast<unsigned long long>(o.max_bytes), step.c_str(), o.warmup, o.iterations, o.aggregated,
      o.checks, o.graph, o.unalign);
  return text;
}

std::string placesText(const std::vector<RankPlace>& places) {
  std::string text = "# Using devices\n";
  for (const RankPlace& p : places)
    text += formatString("#  Rank %2d Group %2d Pid %6d on %10s device %2d %s\n", p.rank, 0, p.pid,
                         p.host.c_str(), std::max(p.gpu, 0), p.gpu < 0 ? "[host] memory" : "[cuda] memory");
  return text;
}

std::string columnsText(const Options& options) {
  const int half = 2 + 7 + 2 + 6 + 2 + 6 + 2 + 6 + (options.per_iteration ? 3 * 9 + 8 : 0);
  std::string names =
      formatString("  %7s  %6s  %6s  %6s", options.cpu_time ? "cputime" : "time", "algbw", "busbw", "#wrong");
  std::string units = formatString("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
  if (options.per_iteration) {
    names += formatString("  %7s  %7s  %7s  %6s", "i_min", "i_max", "i_p99", "i_cv%");
    units += formatString("  %7s  %7s  %7s  %6s", "(us)", "(us)", "(us)", "");
  }
  std::string text = formatString("#%*s", kLeadWidth, "") + halfTitle("out-of-place", half) +
                     halfTitle("in-place", half) + "\n";
  text += formatString("#%11s  %12s  %8s  %6s  %6s ", "size", "count", "type", "redop", "root") + names +
          names + "\n";
  text += formatString("#%11s  %12s  %8s  %6s  %6s ", "(B)", "(elements)", "", "", "") + units + units + "\n";
  return text;
}

std::string rowText(const Row& row) {
  std::string text =
      formatString("%12llu  %12llu  %8s  %6s  %6d ", static_cast<unsigned long long>(row.bytes),
                   static_cast<unsigned long long>(row.count), row.type.c_str(), row.op.c_str(), row.root);
  text += halfText(row.out_of_place);
  text += row.in_place ? halfText(*row.in_place) : noHalfLike(row.out_of_place);
  if (!row.timestamp.empty()) text += "  " + row.timestamp;
  return text + "\n";
}

std::optional<double> partReached(const Row& row) {
  if (!row.predicted || row.predicted->us <= 0 || row.out_of_place.time_us <= 0) return {};
  return row.predicted->us / row.out_of_place.time_us;
}

std::string explanationText(const std::vector<Row>& rows, bool is_measured) {
  std::string text =
      std::string("# Predicted by simulation ") +
      (is_measured ? "for this machine, as it was measured before the table\n"
                   : "for the machine that HORING_CALIBRATE measured or names, or that horing-sim assumes\n");
  text += formatString("# %10s  %8s  %6s  %10s  %10s  %8s  %s\n", "size", "type", "redop", "measured",
                       "predicted", "reached", "bounded, in the prediction, by");
  text += formatString("# %10s  %8s  %6s  %10s  %10s  %8s\n", "(B)", "", "", "(us)", "(us)", "(%)");
  for (const Row& row : rows) {
    const std::optional<double> reached = partReached(row);
    text +=
        formatString("# %10llu  %8s  %6s  %10s  %10s  %8s  %s\n", static_cast<unsigned long long>(row.bytes),
                     row.type.c_str(), row.op.c_str(), fitNumber(row.out_of_place.time_us, 10).c_str(),
                     row.predicted ? fitNumber(row.predicted->us, 10).c_str() : "N/A",
                     reached ? fitNumber(100 * *reached, 8).c_str() : "N/A",
                     row.predicted ? row.predicted->bottleneck.c_str() : "");
  }
  text += "# reached: predicted time over measured time.";
  if (is_measured)
    text +=
        " Large sizes far below 100: look for a slow node, adapter or path with horing-check,\n# and for "
        "other "
        "programs on the cores.";
  return text +
         " horing-info selection --explain says which algorithm runs, and why. docs/speed.md explains the "
         "lines.\n#\n";
}

std::string rankTimesText(const std::vector<Row>& rows, const std::vector<RankPlace>& places) {
  std::string text = "# Times of each rank, of single iterations out of place\n";
  text += formatString("# %10s  %8s  %6s  %5s  %10s  %10s  %10s  %s\n", "size", "type", "redop", "rank",
                       "least", "median", "most", "host");
  text +=
      formatString("# %10s  %8s  %6s  %5s  %10s  %10s  %10s\n", "(B)", "", "", "", "(us)", "(us)", "(us)");
  for (const Row& row : rows) {
    if (!row.out_of_place.iterations) continue;
    const std::vector<std::vector<double>>& by_rank = row.out_of_place.iterations->by_rank_us;
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const IterationTimes times = {by_rank[rank], {}};
      text += formatString("# %10llu  %8s  %6s  %5zu  %10s  %10s  %10s  %s\n",
                           static_cast<unsigned long long>(row.bytes), row.type.c_str(), row.op.c_str(), rank,
                           fitNumber(times.least(), 10).c_str(), fitNumber(times.percentile(50), 10).c_str(),
                           fitNumber(times.most(), 10).c_str(), places[rank].host.c_str());
    }
  }
  return text + "#\n";
}

std::string footerText(const char* program, const Totals& totals) {
  const std::string wrong = formatString("%llu %s", static_cast<unsigned long long>(totals.wrong.value_or(0)),
                                         totals.dataOk() ? "OK" : "FAILED");
  const char* verdict = totals.min_bandwidth < 0 ? "" : totals.bandwidthOk() ? " OK" : " FAILED";
  std::string text = "# Out of bounds values : " + wrong + "\n";
  text += formatString("# Avg bus bandwidth    : %g%s\n#\n", totals.average_bandwidth, verdict);
  text += formatString("# Collective test concluded: %s\n#\n", program);
  return text;
}

}  // namespace horing::perf
