#pragma once
// A schedule as a picture: a row per lane, a column per unit of time, a box per step. Long times continue in bands below; of pictures that
// would be too tall only a part is drawn (excerpt.h).
#include <span>
#include <string>

#include "timeline.h"

namespace horing {

struct DiagramOptions {
  int32_t members = 1;    // ranks per group; what leaves a group is drawn apart
  int32_t position = -1;  // the rank to draw, -1: all of them, with the messages between them
  Rails rails{};          // groups that differ in size, with up to `members` ranks
};

// SVG that follows the reader's light or dark setting. Errors: a position that is not there.
Result<std::string> drawLanes(std::span<const Schedule> all_ranks, const Timeline& timeline,
                              const DiagramOptions& options);

}  // namespace horing
