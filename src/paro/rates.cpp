#include "paro/rates.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "paro/agreement.h"
#include "paro/grid.h"
#include "paro/memory.h"
#include "paro/status_of.h"
#include "paro/transfers.h"

namespace horing::paro {

namespace {

constexpr size_t kShortBytes = size_t{4} << 10, kLongestBytes = size_t{4} << 20;
constexpr size_t kLeastRuns = 3, kMostRuns = 9;
constexpr double kEnoughSeconds = 0.1;  // of the runs of one move

// A strategy that uses all three scopes.
constexpr horingParoStrategy_t kOfAllScopes = horingParoNIG;

// Runs moves on vectors of zeros, in step with the other ranks.
class Stopwatch {
 public:
  Stopwatch(horingComm_t comm, const Grid& grid, Backend& backend)
      : comm_(comm), backend_(backend), transfers_(grid) {}
  // For vectors of up to `most` elements.
  Status open(size_t most) {
    HORING_TRY(transfers_.open(backend_));
    HORING_ASSIGN(zeros_,
                  Memory::allocate(backend_, "vectors to measure with", most * sizeof(float), &bytes_));
    for (const auto collective : {horingParoReduceScatter, horingParoAllReduce}) {
      const Move move{horingParoPhaseReduce, collective, horingParoRail, horingParoByGroup};
      if (!transfers_.folds(move)) continue;
      const size_t bytes = transfers_.scratchCount(move, {most, 1}) * sizeof(float);
      if (bytes <= scratch_.bytes()) continue;
      HORING_ASSIGN(scratch_, Memory::allocate(backend_, "vectors to measure with", bytes, &bytes_));
    }
    return {};
  }

  // The median of the runs, each on the rank that it took longest: what others do on this machine counts, too.
  Result<double> seconds(const Move& move, size_t count) {
    std::vector<double> runs;
    double sum = 0;
    while (runs.size() < kMostRuns && (runs.size() < kLeastRuns || sum < kEnoughSeconds)) {
      HORING_ASSIGN(const double taken, secondsOnce(move, count));
      runs.push_back(taken);
      sum += taken;
    }
    std::ranges::sort(runs);
    return runs[runs.size() / 2];
  }

 private:
  Result<double> secondsOnce(const Move& move, size_t count) {
    HORING_TRY(largest(0).status());  // all are here
    const int64_t begin = clock_.nowNs();
    const Transfers::Data data{zeros_.data(), nullptr, {count, 1}, horingFloat32};
    if (transfers_.folds(move)) {
      HORING_TRY(transfers_.scatter(move, data, scratch_.data()));
      HORING_TRY(wait());
      HORING_TRY(transfers_.fold(move, data, scratch_.data(), /*average=*/false));
    } else {
      HORING_TRY(transfers_.issue(move, data, /*average=*/false));
    }
    HORING_TRY(wait());
    return largest(static_cast<double>(clock_.nowNs() - begin) / 1e9);
  }
  Status wait() const {
    HORING_ASSIGN(const Completion done, transfers_.completion());
    HORING_TRY(done.await());
    return backend_.finish();
  }
  Result<double> largest(double mine) const {
    HORING_TRY(statusOf(horingAllReduce(&mine, &mine, 1, horingFloat64, horingMax, comm_, nullptr)));
    return mine;
  }

  const horingComm_t comm_;
  Backend& backend_;
  uint64_t bytes_ = 0;
  Memory zeros_, scratch_;
  Transfers transfers_;  // destroyed first: nothing is in flight when memory is freed
  const SteadyClock clock_;
};

// A whole number of elements for each rank.
size_t elements(size_t bytes, const Blocks& blocks) {
  const auto ranks = static_cast<size_t>(blocks.ranks());
  return std::max<size_t>(1, bytes / sizeof(float) / ranks) * ranks;
}

}  // namespace

Result<horingParoRates_t> measureRates(horingComm_t comm, size_t bytes, Backend& backend) {
  Grid grid(comm);
  HORING_TRY(agree(comm, grid.look()));
  HORING_ASSIGN(const Row* const row, findRow(kOfAllScopes));
  HORING_TRY(grid.connect(*row));
  const size_t few = elements(kShortBytes, grid.blocks()),
               many = std::max(elements(std::min(bytes, kLongestBytes), grid.blocks()), 2 * few);
  Stopwatch stopwatch(comm, grid, backend);
  HORING_TRY(agree(comm, stopwatch.open(many)));
  const auto fewest = static_cast<double>(grid.blocks().shares(grid.rank()).fewest_members);
  horingParoRates_t rates{};
  for (const auto scope : {horingParoGroup, horingParoRail, horingParoGlobal})
    for (const auto collective : {horingParoAllGather, horingParoReduceScatter, horingParoAllReduce}) {
      const horingParoPartition_t coarse = scope == horingParoRail ? horingParoByGroup : horingParoWhole;
      const Move move{horingParoPhaseReduce, collective, scope, coarse};
      HORING_ASSIGN(const double small, stopwatch.seconds(move, few));
      HORING_ASSIGN(const double large, stopwatch.seconds(move, many));
      horingParoRate_t& rate = rates.of[collective][scope];
      const double element_bytes = sizeof(float) / (coarse == horingParoWhole ? 1 : fewest);  // of the block
      rate.secondsPerByte = std::max(0.0, large - small) / (static_cast<double>(many - few) * element_bytes);
      rate.latencySeconds =
          std::max(0.0, small - rate.secondsPerByte * static_cast<double>(few) * element_bytes);
    }
  return rates;
}

double secondsOf(const horingParoEstimate_t& estimate, int vectors, const horingParoRates_t& rates) {
  double seconds = 0;
  for (int i = 0; i < estimate.numOperations; ++i) {
    const horingParoOperation_t& operation = estimate.operations[i];
    const horingParoRate_t& rate = rates.of[operation.collective][operation.scope];
    seconds += operation.times *
               (vectors * rate.latencySeconds + static_cast<double>(operation.bytes) * rate.secondsPerByte);
  }
  return seconds;
}

}  // namespace horing::paro
