#pragma once
// One rank's view of the communicator under test, with the few small collectives that a benchmark needs to
// agree.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"

namespace horing::perf {

// Ok, or the library's error with its full text: "horingAllReduce: 'remote error / rank 3 ...'".
Status called(horingResult_t result, horingComm_t comm, const char* function);

// Does not own the communicator. Every member is collective unless its comment excludes that. One thread.
class Ranks {
 public:
  static Result<Ranks> of(horingComm_t comm);

  horingComm_t comm() const { return comm_; }  // not collective
  int rank() const { return rank_; }           // not collective
  int size() const { return size_; }           // not collective

  Status barrier();
  Result<double> sum(double value);
  Result<double> least(double value);
  Result<double> most(double value);
  Result<uint64_t> sum(uint64_t value);
  // Element by element, in place.
  Status most(std::vector<double>& values);
  // One value of `bytes` from each rank, in rank order.
  Result<std::vector<char>> gather(const void* value, size_t bytes);

 private:
  Ranks(horingComm_t comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}
  Result<double> reduce(double value, horingRedOp_t op);

  horingComm_t comm_;
  int rank_;
  int size_;
};

}  // namespace horing::perf
