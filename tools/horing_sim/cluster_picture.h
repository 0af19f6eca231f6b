#pragma once
// The nodes of a machine, their links, and what each link carries in a simulated run.
#include <string>

#include "selection/prediction.h"

namespace horing {

// SVG that follows the reader's light or dark setting. `prediction` has records of its messages. Of many nodes, or
// ranks of a node, the first ones are drawn.
// Errors: schedules that FoldedNetwork::build() refuses.
Result<std::string> drawCluster(const Prediction& prediction);

}  // namespace horing
