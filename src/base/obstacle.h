#pragma once
// What a call waits for.
#include <cstdint>
#include <string>
#include <vector>

namespace horing {

struct Obstacle {
  std::vector<int32_t> ranks{};     // for their data or messages; each once, as in the next one
  std::string text{};               // "lane 1 step 3 slice 17: waits for data from rank 5"
  std::vector<int32_t> gives_to{};  // that are to take its messages
  int64_t since_ns = INT64_MAX;     // when it last went on; INT64_MAX: unknown

  bool isNobody() const { return ranks.empty() && gives_to.empty(); }
};

}  // namespace horing
