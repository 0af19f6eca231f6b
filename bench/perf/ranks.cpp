#include "perf/ranks.h"

namespace horing::perf {

Status called(horingResult_t result, horingComm_t comm, const char* function) {
  if (result == horingSuccess) return {};
  const std::string name = horingGetErrorString(result);
  const std::string story = horingGetLastError(comm);
  // The story may begin with the name of the error already.
  const std::string text = story.starts_with(name) ? story : name + " / " + story;
  return makeStatus(static_cast<Code>(result), "%s: '%s'", function, text.c_str());
}

Result<Ranks> Ranks::of(horingComm_t comm) {
  int rank = 0;
  int size = 0;
  HORING_TRY(called(horingCommUserRank(comm, &rank), comm, "horingCommUserRank"));
  HORING_TRY(called(horingCommCount(comm, &size), comm, "horingCommCount"));
  return Ranks(comm, rank, size);
}

Status Ranks::barrier() {
  int32_t one = 1;
  return called(horingAllReduce(&one, &one, 1, horingInt32, horingSum, comm_, nullptr), comm_,
                "horingAllReduce (barrier)");
}

Result<double> Ranks::reduce(double value, horingRedOp_t op) {
  HORING_TRY(called(horingAllReduce(&value, &value, 1, horingFloat64, op, comm_, nullptr), comm_,
                    "horingAllReduce (times)"));
  return value;
}

Result<double> Ranks::sum(double value) {
  return reduce(value, horingSum);
}
Result<double> Ranks::least(double value) {
  return reduce(value, horingMin);
}
Result<double> Ranks::most(double value) {
  return reduce(value, horingMax);
}

Result<uint64_t> Ranks::sum(uint64_t value) {
  HORING_TRY(called(horingAllReduce(&value, &value, 1, horingUint64, horingSum, comm_, nullptr), comm_,
                    "horingAllReduce (counts)"));
  return value;
}

Status Ranks::most(std::vector<double>& values) {
  return called(
      horingAllReduce(values.data(), values.data(), values.size(), horingFloat64, horingMax, comm_, nullptr),
      comm_, "horingAllReduce (times)");
}

Result<std::vector<char>> Ranks::gather(const void* value, size_t bytes) {
  std::vector<char> all(bytes * static_cast<size_t>(size_));
  HORING_TRY(called(horingAllGather(value, all.data(), bytes, horingUint8, comm_, nullptr), comm_,
                    "horingAllGather"));
  return all;
}

}  // namespace horing::perf
