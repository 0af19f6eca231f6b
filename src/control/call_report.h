#pragma once
// What a rank reports about one of its calls when a rank waits. A value that is sent to the rendezvous.
#include <cstdint>
#include <string>
#include <vector>

#include "control/replay_number.h"

namespace horing {

inline constexpr size_t kMaxCallName = 32;
inline constexpr size_t kMaxCallText = 96;
inline constexpr size_t kMaxObstacleText = 512;
inline constexpr uint32_t kMaxWaitedFor = 64;

// Launches of kernels are numbered separately from the calls that the host carries out: the order between the two may differ among
// ranks.
inline constexpr uint64_t kFirstLaunch = uint64_t{1} << 62;
// "#3", "launch #3", "run #3 in a graph"
inline std::string callNumberText(uint64_t sequence) {
  if (sequence >= kFirstReplay)
    return "run #" + std::to_string(ReplayNumber::decoded(sequence).run) + " in a graph";
  return (sequence < kFirstLaunch ? "#" : "launch #") + std::to_string(sequence % kFirstLaunch);
}

struct CallReport {
  enum class Kind : uint8_t {
    kAnswer,    // the answer to an inquiry
    kStalled,   // it waits, and asks whether a rank is to blame
    kMismatch,  // a peer's data belongs to another call
    kOverdue,   // its deadline has passed
  };
  Kind kind = Kind::kAnswer;
  uint64_t sequence = 0;  // the number of the call
  uint32_t round = 0;     // kAnswer: as in the inquiry
  uint64_t begun =
      0;  // calls that this rank has begun: it never made this one if that is not above `sequence`
  uint64_t ended = 0;  // calls that this rank has completed
  // Digest of what must be the same on all ranks; 0 if the rank never made the call, or made it too long ago.
  uint64_t digest = 0;
  std::string name;                // "all_reduce"
  std::string arguments;           // "1000 x float32, sum"
  uint32_t timeout_ms = 0;         // kOverdue: the deadline that has passed
  std::vector<int32_t> waits_for;  // ranks, while the call waits
  std::string obstacle;            // "lane 1 step 3 of 6 slice 2 of 16: waits for data from rank 5"
};

}  // namespace horing
