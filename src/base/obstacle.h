#pragma once
// The reason why a call waits.
#include <cstdint>
#include <string>
#include <vector>

namespace horing {

struct Obstacle {
  std::vector<int32_t> ranks{};     // whose data or messages it waits for; no duplicates
  std::string text{};               // "lane 1 step 3 slice 17: waits for data from rank 5"
  std::vector<int32_t> gives_to{};  // the ranks that have to receive its messages; no duplicates
  int64_t since_ns = INT64_MAX;     // the time of its latest progress; INT64_MAX: unknown

  bool isNobody() const { return ranks.empty() && gives_to.empty(); }
};

}  // namespace horing
