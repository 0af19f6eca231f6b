#pragma once
// A simulation as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing show: a process for each rank, a track
// for each of its lanes and for each of its connections, arrows from message to receiver.
#include <string>

#include "selection/prediction.h"

namespace horing {

inline constexpr int64_t kMostTraceEvents = 2'000'000;  // some 200 MB, which Perfetto still opens

// Of a prediction with records. Of the first ranks only, at least one, where all of them have more than so many events; then a mark at
// the beginning says so.
Result<std::string> chromeTrace(const Prediction& prediction, int64_t most_events = kMostTraceEvents);

}  // namespace horing
