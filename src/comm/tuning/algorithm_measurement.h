#pragma once
// The table by which the library chooses algorithms (HORING_SELECTION), written by measurement: every schedule that there is is
// timed at every size, in turns whose order changes from round to round.
#include <string>
#include <vector>

#include "selection/selection_table.h"

namespace horing {

class Communicator;

struct AlgorithmGrid {
  std::vector<Collective> collectives;
  std::vector<uint64_t> sizes;  // bytes of the whole vector, ascending
};

// What one collective of one size took.
struct MeasuredPoint {
  struct Time {
    const Algorithm* algorithm = nullptr;
    double us = 0;  // of the slowest rank, the median of several rounds
    double spread =
        0;  // what the same algorithm's rounds differ by: 1 for nothing; 0: so slow that it was not looked at closely
  };
  Collective collective = Collective::kAllReduce;
  uint64_t bytes = 0;
  // In the order of the catalogue. Algorithms that have the same schedules here have the same time.
  std::vector<Time> times;
};

// Collective; nothing else may run on the communicator, which afterwards chooses by the table that is built in. Every rank has
// the same times. Takes some 10 s for 8 ranks. Algorithms that ask for inputs that every rank can read are left out. Errors: the
// communicator's; kInvalidArgument: a collective that no algorithm can run here.
Result<std::vector<MeasuredPoint>> measureAlgorithms(Communicator& communicator, const AlgorithmGrid& grid);

// Calls of more than was measured: the last row serves them, or other rows that are put behind these.
enum class Larger { kServed, kLeftOut };
// Rows for jobs of this shape, with all times as comments. An algorithm serves up to half-way (of a factor) between
// the last size at which it is the fastest and the next; one that is hardly slower than the next serves that, too.
std::string measuredTableText(const std::vector<MeasuredPoint>& points, const JobShape& job,
                              Larger larger = Larger::kServed);

}  // namespace horing
