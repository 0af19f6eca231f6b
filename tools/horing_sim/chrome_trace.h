#pragma once
// A simulation as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing show: a process for each rank, a track
// for each of its lanes and for each of its connections, arrows from message to receiver.
#include <string>

#include "selection/prediction.h"

namespace horing {

// Of a prediction with records.
Result<std::string> chromeTrace(const Prediction& prediction);

}  // namespace horing
