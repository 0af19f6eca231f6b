#pragma once
// Schedules as text: for reading, comparing, golden files and horing-plan.
//
//   schedule ring all_reduce position 0 of 4 grid 1 x 4 scratch 0
//   lane 0
//     once                                        # step 0
//       chunk 3 = in -> send 1
//     repeat 2 stride 0 -1                        # steps 1 to 2
//       chunk 2 = recv 3 + in -> send 1
//     once                                        # step 3
//       chunk 0 = recv 3 + in, complete -> out
//   lane 1
//     once                                        # step 0
//       chunk 0 = out -> send 1 after lane 0 step 3
//
// One line per step: `chunk C = SOURCE + SOURCE ..., complete -> TARGET, send P after lane L step S stride D`, of which only the chunk and
// one source are required. Sources: in, out, recv P, scratch Q, in of P; targets: out, out of all, scratch Q. A step of a signal lane:
// `await P Q ... signal P Q ... after lane L step S`, with at least one of `await` and `signal`. A `#` starts a comment; spaces and empty
// lines mean nothing. A collective with a root names it: `schedule tree broadcast root 2 position 0 ...`.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace horing {

inline constexpr size_t kMaxTextBytes = 64u << 20;
inline constexpr size_t kMaxNameBytes = 64;

// parseSchedules() gives the same value back, if verifyValues() accepts the value's shape and the algorithm's name has only letters,
// digits, '_', '-' and '.'.
std::string formatSchedule(const Schedule& schedule);

// Parses any number of schedules. The text is untrusted: limits are enforced; the verifier judges the meaning of the numbers. Errors are
// kInvalidArgument, name line and column and say what was expected.
Result<std::vector<Schedule>> parseSchedules(std::string_view text);

}  // namespace horing
