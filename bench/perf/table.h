#pragma once
// The lines that scripts read: header, rows and footer in the columns of nccl-tests. Makes text only; printing is
// elsewhere.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "perf/options.h"

namespace horing::perf {

// Times of single iterations, in microseconds, of the slowest rank.
struct IterationTimes {
  std::vector<double> times_us;
  std::vector<std::vector<double>> by_rank_us;

  double least() const;
  double most() const;
  double average() const;
  double deviation() const;         // standard deviation
  double percentile(int p) const;   // nearest rank
  double variationPercent() const;  // deviation over average
};

// One half of a row: out of place or in place.
struct Measurement {
  double time_us = 0;
  double algorithm_bandwidth = 0;  // GB/s, 1e9
  double bus_bandwidth = 0;
  std::optional<uint64_t> wrong;  // none: not checked
  std::optional<IterationTimes> iterations;
};

// What the simulator says of a row, out of place.
struct Prediction {
  double us = 0;
  std::string bottleneck;  // as horingGroupExplainEnd has it
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type;
  std::string op;  // "none" where nothing is reduced
  int root = -1;   // -1 where there is none
  Measurement out_of_place;
  std::optional<Measurement> in_place;  // none: the collective cannot be called in place
  std::string timestamp;                // empty: not shown
  std::optional<Prediction> predicted;  // none: not requested, or it cannot be simulated
};

// One line of "Using devices".
struct RankPlace {
  int rank = 0;
  int pid = 0;
  std::string host;
  int gpu = -1;  // that its buffers are on; -1: they are on the host
};

struct Totals {
  std::optional<uint64_t> wrong;  // none: nothing was checked
  double average_bandwidth = 0;
  double min_bandwidth = -1;

  bool dataOk() const { return wrong.value_or(0) == 0; }
  bool bandwidthOk() const { return min_bandwidth < 0 || average_bandwidth >= 0.9 * min_bandwidth; }
};

// As many decimals as fit into `width`: 2, 1, 0, else exponent.
std::string fitNumber(double value, int width);

std::string headerText(const char* program, const Options& options, int library_version);
std::string placesText(const std::vector<RankPlace>& places);
std::string columnsText(const Options& options);
std::string rowText(const Row& row);
// The predicted over the measured time; none where one of them is not known.
std::optional<double> partReached(const Row& row);
// The prediction for each row, how much of it was reached, and what bounds it; `is_measured`: for this machine, or for an assumed one.
std::string explanationText(const std::vector<Row>& rows, bool is_measured);
// The times of single iterations of each rank, out of place, for rows that have them.
std::string rankTimesText(const std::vector<Row>& rows, const std::vector<RankPlace>& places);
std::string footerText(const char* program, const Totals& totals);

}  // namespace horing::perf
