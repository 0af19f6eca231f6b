#pragma once
// What a rank says of what it does right now, while somebody waits for messages. A value that travels to the rendezvous.
#include <cstdint>
#include <string>
#include <vector>

#include "control/call_report.h"

namespace horing {

struct RankState {
  enum class Doing : uint8_t { kNothing, kCollective, kExchange };
  Doing doing = Doing::kNothing;
  uint32_t round = 0;       // of the inquiry that it answers; 0: it was not asked
  uint64_t sequence = 0;    // of the collective
  std::string name;         // of the collective
  uint32_t idle_ms = 0;     // for so long nothing has moved; 0: it does not wait
  uint32_t overdue_ms = 0;  // of an exchange: the deadline that has passed; 0: none has
  // While it waits: the ranks whose data or messages it wants, and those that are to take its messages.
  std::vector<int32_t> takes_from;
  std::vector<int32_t> gives_to;
};

}  // namespace horing
