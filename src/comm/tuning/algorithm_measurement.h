#pragma once
// Measures the table by which the library chooses algorithms (HORING_SELECTION): every schedule is timed at every size, in turn, in an
// order that changes from round to round.
#include <string>
#include <vector>

#include "selection/selection_table.h"

namespace horing {

class Communicator;

struct AlgorithmGrid {
  std::vector<Collective> collectives;
  std::vector<uint64_t> sizes;  // bytes of the whole vector, ascending
};

// The times of one collective at one size.
struct MeasuredPoint {
  struct Time {
    const Algorithm* algorithm = nullptr;
    double us = 0;  // on the slowest rank; the median of several rounds
    double spread =
        0;  // what the same algorithm's rounds differ by: 1 for nothing; 0: so slow that it was not looked at closely
  };
  Collective collective = Collective::kAllReduce;
  uint64_t bytes = 0;
  // In the order of the catalogue. Algorithms with the same schedules on this communicator have the same time.
  std::vector<Time> times;
};

// Collective; nothing else may run on the communicator. Afterwards the communicator chooses by the built-in table. Every rank gets the same
// times. Takes some 10 s for 8 ranks. Algorithms that need inputs that every rank can read are left out. Errors: the communicator's;
// kInvalidArgument if no algorithm can run the collective here.
Result<std::vector<MeasuredPoint>> measureAlgorithms(Communicator& communicator, const AlgorithmGrid& grid);

// Which row serves calls larger than the largest measured size: the last one (kServed), or rows that the caller appends (kLeftOut).
enum class Larger { kServed, kLeftOut };
// Rows for jobs of this shape, with all times as comments. An algorithm serves sizes up to the geometric mean of the last size at which it
// is the fastest and the next measured size. If it is hardly slower than the fastest at the next size, it serves that size too.
std::string measuredTableText(const std::vector<MeasuredPoint>& points, const JobShape& job,
                              Larger larger = Larger::kServed);

}  // namespace horing
