#pragma once
// A simulation as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing show: a process for each rank, a track
// for each of its lanes and for each of its connections, arrows from message to receiver.
#include <string>

#include "selection/prediction.h"

namespace horing {

inline constexpr int64_t kMostTraceEvents = 2'000'000;  // some 200 MB, which Perfetto still opens

// For a prediction with records. If all ranks together have more than `most_events` events, only the first ranks are shown, at least one,
// and a mark at the beginning says so.
Result<std::string> chromeTrace(const Prediction& prediction, int64_t most_events = kMostTraceEvents);

}  // namespace horing
