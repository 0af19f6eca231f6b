#pragma once
// What a rank reports about its current activity while a rank waits for messages. A value that is sent to the rendezvous.
#include <cstdint>
#include <string>
#include <vector>

#include "control/call_report.h"

namespace horing {

struct RankState {
  enum class Doing : uint8_t { kNothing, kCollective, kExchange };
  Doing doing = Doing::kNothing;
  uint32_t round = 0;       // of the inquiry that it answers; 0: sent unasked
  uint64_t sequence = 0;    // of the collective
  std::string name;         // of the collective
  uint32_t idle_ms = 0;     // time without progress; 0: it does not wait
  uint32_t overdue_ms = 0;  // of an exchange: the deadline that has passed; 0: none
  // While it waits: the ranks from which it expects data or messages, and the ranks that must receive its messages.
  std::vector<int32_t> takes_from;
  std::vector<int32_t> gives_to;
};

}  // namespace horing
