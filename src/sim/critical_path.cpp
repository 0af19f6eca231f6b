#include "sim/critical_path.h"

#include <algorithm>

namespace horing {

namespace {

class Walk {
 public:
  Walk(const SimulationResult& result, const FoldedNetwork& network) : result_(result), network_(network) {}

  std::vector<PathSegment> run() {
    int32_t at = lastSlice();
    while (at != kNoRecord) {
      const SliceRecord& slice = result_.slice_records[static_cast<size_t>(at)];
      add({PathSegment::Kind::kCore, false, slice.ready, slice.end, at, kNoRecord});
      at = before(at, slice);
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  int32_t lastSlice() const {
    const auto last =
        std::max_element(result_.slice_records.begin(), result_.slice_records.end(),
                         [](const SliceRecord& a, const SliceRecord& b) { return a.end < b.end; });
    return last == result_.slice_records.end() ? kNoRecord
                                               : static_cast<int32_t>(last - result_.slice_records.begin());
  }

  void add(const PathSegment& segment) {
    if (segment.end > segment.begin) path_.push_back(segment);
  }

  // Adds the segments between a slice and the slice that it depended on; returns the latter.
  int32_t before(int32_t at, const SliceRecord& slice) {
    switch (slice.cause.kind) {
      case Cause::Kind::kStart:
        return kNoRecord;
      case Cause::Kind::kOrder:
      case Cause::Kind::kWait:
        return slice.cause.record;
      case Cause::Kind::kSlot:
        add({PathSegment::Kind::kCredit, false, endOf(slice.cause.record), slice.ready, at, kNoRecord});
        return slice.cause.record;
      case Cause::Kind::kMessage:
        break;
    }
    const MessageRecord& message = result_.message_records[static_cast<size_t>(slice.cause.record)];
    const bool crosses = network_.wires()[static_cast<size_t>(message.wire)].crosses_nodes;
    add({PathSegment::Kind::kLatency, crosses, message.left, message.arrived, at, slice.cause.record});
    add({PathSegment::Kind::kLine, crosses, message.posted, message.left, at, slice.cause.record});
    return message.sender;
  }

  Picoseconds endOf(int32_t slice) const { return result_.slice_records[static_cast<size_t>(slice)].end; }

  const SimulationResult& result_;
  const FoldedNetwork& network_;
  std::vector<PathSegment> path_;
};

std::string nameOf(const PathSegment& segment) {
  const std::string where = segment.crosses_nodes ? " between nodes" : " inside a node";
  switch (segment.kind) {
    case PathSegment::Kind::kLine:
      return "lines" + where;
    case PathSegment::Kind::kLatency:
      return "latency" + where;
    case PathSegment::Kind::kCredit:
      return "waiting for free slots";
    case PathSegment::Kind::kCore:
      break;
  }
  return "cores";
}

}  // namespace

std::vector<PathSegment> criticalPath(const SimulationResult& result, const FoldedNetwork& network) {
  return Walk(result, network).run();
}

std::vector<PathShare> pathShares(std::span<const PathSegment> path) {
  std::vector<PathShare> shares;
  for (const PathSegment& segment : path) {
    const std::string name = nameOf(segment);
    auto found = std::find_if(shares.begin(), shares.end(),
                              [&](const PathShare& share) { return share.name == name; });
    if (found == shares.end()) found = shares.insert(shares.end(), PathShare{name, 0, 0});
    found->time += segment.end - segment.begin;
    ++found->segments;
  }
  std::sort(shares.begin(), shares.end(), [](const PathShare& a, const PathShare& b) {
    return a.time != b.time ? a.time > b.time : a.name < b.name;
  });
  return shares;
}

}  // namespace horing
