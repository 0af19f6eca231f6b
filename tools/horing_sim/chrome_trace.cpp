#include "chrome_trace.h"

#include <algorithm>

namespace horing {

namespace {

class TraceWriter {
 public:
  TraceWriter(const Prediction& prediction, const FoldedNetwork& network, int64_t most_events)
      : prediction_(prediction),
        result_(prediction.result),
        network_(network),
        ranks_(ranksWithin(most_events)) {}

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    nameTracks();
    for (const SliceRecord& slice : result_.slice_records)
      if (isShown(slice)) writeSlice(slice);
    line_free_.assign(network_.wires().size(), 0);
    for (const MessageRecord& message : result_.message_records)
      if (isShown(message)) writeMessage(message);
    for (const SliceRecord& slice : result_.slice_records) writeArrow(slice);
    const int32_t all = network_.folding().simulatedRanks();
    text_ +=
        formatString("{\"name\":\"%s %s%s\",\"ph\":\"i\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":0}\n]}\n",
                     prediction_.question.algorithm.c_str(), collectiveName(prediction_.question.collective),
                     ranks_ < all ? formatString(", the first %d of %d ranks", ranks_, all).c_str() : "");
    return std::move(text_);
  }

 private:
  const Wire& wireOf(const MessageRecord& message) const {
    return network_.wires()[static_cast<size_t>(message.wire)];
  }
  const MessageRecord* awaitedBy(const SliceRecord& slice) const {
    if (slice.cause.kind != Cause::Kind::kMessage) return nullptr;
    return &result_.message_records[static_cast<size_t>(slice.cause.record)];
  }
  bool isShown(const SliceRecord& slice) const { return network_.positionOf(slice.lane_id) < ranks_; }
  bool isShown(const MessageRecord& message) const { return wireOf(message).from < ranks_; }

  // How many ranks, from the first on.
  int32_t ranksWithin(int64_t most_events) const {
    std::vector<int64_t> events(static_cast<size_t>(network_.folding().simulatedRanks()));
    for (const SliceRecord& slice : result_.slice_records)  // its bar, and both ends of its arrow
      events[static_cast<size_t>(network_.positionOf(slice.lane_id))] += awaitedBy(slice) ? 3 : 1;
    for (const MessageRecord& message : result_.message_records)
      ++events[static_cast<size_t>(wireOf(message).from)];
    size_t ranks = 0;
    for (int64_t all = 0; ranks < events.size() && (all += events[ranks]) <= most_events;) ++ranks;
    return static_cast<int32_t>(std::max<size_t>(ranks, 1));
  }

  // Tracks of connections come after the tracks of lanes.
  int32_t trackOf(int32_t wire) const { return network_.lanesOfRank() + wire; }

  void nameTracks() {
    for (int32_t position = 0; position < ranks_; ++position) {
      name("process_name", position, 0,
           formatString("node %d, rank %d", network_.folding().nodeOf(position), position));
      for (int32_t lane = 0; lane < network_.lanesOfRank(); ++lane)
        name("thread_name", position, lane, formatString("lane %d", lane));
    }
    for (size_t w = 0; w < network_.wires().size(); ++w) {
      const Wire& wire = network_.wires()[w];
      if (wire.from >= ranks_) continue;
      name("thread_name", wire.from, trackOf(static_cast<int32_t>(w)),
           formatString("lane %d to rank %d%s", network_.laneOf(std::max(wire.from_lane, 0)), wire.to,
                        wire.crosses_nodes ? ", other node" : ""));
    }
  }

  void name(const char* what, int32_t process, int32_t track, const std::string& name) {
    text_ +=
        formatString("{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n",
                     what, process, track, name.c_str());
  }

  void bar(int32_t process, int32_t track, Picoseconds begin, Picoseconds end, const std::string& what) {
    text_ += formatString("{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f,%s},\n", process,
                          track, toMicroseconds(begin), toMicroseconds(end - begin), what.c_str());
  }

  void writeSlice(const SliceRecord& slice) {
    bar(network_.positionOf(slice.lane_id), network_.laneOf(slice.lane_id), slice.ready, slice.end,
        formatString("\"name\":\"step %d\",\"args\":{\"slice\":%d,\"chunk\":%d}", slice.step, slice.slice,
                     slice.chunk));
  }

  // From when the line is free of the message before it.
  void writeMessage(const MessageRecord& message) {
    const Wire& wire = wireOf(message);
    Picoseconds& free = line_free_[static_cast<size_t>(message.wire)];
    const Picoseconds begin = std::max(free, message.posted);
    free = message.left;
    bar(wire.from, trackOf(message.wire), begin, message.left,
        formatString("\"name\":\"%lld bytes\",\"args\":{\"arrives\":%.6f}",
                     static_cast<long long>(message.bytes), toMicroseconds(message.arrived)));
  }

  // From the line that the slice waited for to the slice.
  void writeArrow(const SliceRecord& slice) {
    const MessageRecord* const message = awaitedBy(slice);
    if (!message || !isShown(slice) || !isShown(*message)) return;
    const Wire& wire = wireOf(*message);
    const int32_t id = slice.cause.record;
    text_ += formatString(
        "{\"name\":\"message\",\"cat\":\"m\",\"ph\":\"s\",\"id\":%d,\"pid\":%d,\"tid\":%d,\"ts\":%.6f},\n"
        "{\"name\":\"message\",\"cat\":\"m\",\"ph\":\"f\",\"bp\":\"e\",\"id\":%d,\"pid\":%d,\"tid\":%d,"
        "\"ts\":%.6f},\n",
        id, wire.from, trackOf(message->wire), toMicroseconds(message->left), id,
        network_.positionOf(slice.lane_id), network_.laneOf(slice.lane_id), toMicroseconds(slice.ready));
  }

  const Prediction& prediction_;
  const SimulationResult& result_;
  const FoldedNetwork& network_;
  const int32_t ranks_;  // that are shown
  std::vector<Picoseconds> line_free_;
  std::string text_;
};

}  // namespace

Result<std::string> chromeTrace(const Prediction& prediction, int64_t most_events) {
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(*prediction.schedules, prediction.folding));
  return TraceWriter(prediction, network, most_events).write();
}

}  // namespace horing
