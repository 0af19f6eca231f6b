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

// Whose strategies use all three scopes.
constexpr horingParoStrategy_t kOfAllScopes = horingParoNIG;

// Runs moves on vectors of zeros, in step with the other ranks.
class Stopwatch {
 public:
  Stopwatch(horingComm_t comm, const Grid& grid, std::byte* zeros)
      : comm_(comm), transfers_(grid), zeros_(zeros) {}
  Status open() { return transfers_.open(); }

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
    HORING_TRY(transfers_.issue(move, {zeros_, nullptr, count, horingFloat32}, /*average=*/false));
    HORING_ASSIGN(const Completion done, transfers_.completion());
    HORING_TRY(done.wait());
    return largest(static_cast<double>(clock_.nowNs() - begin) / 1e9);
  }
  Result<double> largest(double mine) const {
    HORING_TRY(statusOf(horingAllReduce(&mine, &mine, 1, horingFloat64, horingMax, comm_, nullptr)));
    return mine;
  }

  const horingComm_t comm_;
  Transfers transfers_;
  std::byte* const zeros_;
  const SteadyClock clock_;
};

// A whole number of elements for each rank.
size_t elements(size_t bytes, const Shape& shape) {
  const auto ranks = static_cast<size_t>(shape.ranks());
  return std::max<size_t>(1, bytes / sizeof(float) / ranks) * ranks;
}

}  // namespace

Result<horingParoRates_t> measureRates(horingComm_t comm, size_t bytes) {
  Grid grid(comm);
  HORING_TRY(agree(comm, grid.look()));
  HORING_ASSIGN(const Row* const row, findRow(grid.isGrid() ? kOfAllScopes : horingParoNNG));
  HORING_TRY(grid.connect(*row));
  const size_t few = elements(kShortBytes, grid.shape()),
               many = std::max(elements(std::min(bytes, kLongestBytes), grid.shape()), 2 * few);
  uint64_t counter = 0;
  Result<Memory> zeros = Memory::allocate(many * sizeof(float), &counter);
  HORING_TRY(agree(comm, zeros.status()));
  Stopwatch stopwatch(comm, grid, zeros.value().data());
  HORING_TRY(agree(comm, stopwatch.open()));
  horingParoRates_t rates{};
  for (const auto scope : {horingParoGroup, horingParoRail, horingParoGlobal})
    for (const auto collective : {horingParoAllGather, horingParoReduceScatter, horingParoAllReduce}) {
      if (scope != horingParoGlobal && !grid.isGrid()) continue;
      const horingParoPartition_t coarse = scope == horingParoRail ? horingParoByGroup : horingParoWhole;
      const auto part = static_cast<size_t>(grid.shape().divisor(coarse));
      const Move move{horingParoPhaseReduce, collective, scope, coarse};
      HORING_ASSIGN(const double small, stopwatch.seconds(move, few / part));
      HORING_ASSIGN(const double large, stopwatch.seconds(move, many / part));
      horingParoRate_t& rate = rates.of[collective][scope];
      const double grown = static_cast<double>((many - few) / part * sizeof(float));
      rate.secondsPerByte = std::max(0.0, large - small) / grown;
      rate.latencySeconds =
          std::max(0.0, small - rate.secondsPerByte * static_cast<double>(few / part * sizeof(float)));
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
