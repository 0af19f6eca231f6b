#include "comm/guard/message_tracks.h"

#include <algorithm>
#include <compare>
#include <map>
#include <vector>

#include "comm/guard/timeline_events.h"
#include "control/flight_file.h"
#include "engine/host/message_matcher.h"

namespace horing {

namespace {

constexpr size_t kFirstTrack = 100'000;  // behind lanes and kernels

bool sends(MessageKind kind) {
  return kind == MessageKind::kSend || kind == MessageKind::kPut || kind == MessageKind::kSignal;
}

struct Track {
  bool by_kernel, is_group, sends;
  int32_t peer;
  auto operator<=>(const Track&) const = default;
  std::string name() const {
    if (is_group) return by_kernel ? "large groups (kernel)" : "large groups";
    const std::string of = peer == kAnyRank ? std::string("any rank") : formatString("rank %d", peer);
    return (sends ? "to " : "from ") + of + (by_kernel ? " (kernel)" : "");
  }
};

struct Shown {
  RecordedMessage record;
  int64_t ended_ns;
};
// In one track messages do not overlap.
using Row = std::vector<Shown>;

std::string nameOf(const RecordedMessage& record) {
  if (record.kind == MessageKind::kGroup) return formatString("%d messages", record.peer);
  return formatString("%s %llu bytes", messageKindName(record.kind),
                      static_cast<unsigned long long>(record.bytes));
}

void addTo(std::vector<Row>& rows, const Shown& shown) {
  const auto free = std::ranges::find_if(
      rows, [&](const Row& row) { return row.back().ended_ns <= shown.record.enqueued_ns; });
  if (free == rows.end()) {
    rows.push_back({shown});
  } else {
    free->push_back(shown);
  }
}

}  // namespace

std::string MessageTracks::toJson(const MessageRecorder& of_host, const MessageRecorder& of_kernels) const {
  std::map<Track, std::vector<Row>> tracks;
  for (const MessageRecorder* const recorder : {&of_host, &of_kernels}) {
    std::vector<RecordedMessage> records = recorder->last();
    std::ranges::stable_sort(records, {}, &RecordedMessage::enqueued_ns);
    for (const RecordedMessage& record : records) {
      const bool is_group = record.kind == MessageKind::kGroup;
      const bool is_open = record.state != MessageState::kComplete;
      addTo(tracks[{recorder == &of_kernels, is_group, sends(record.kind), is_group ? 0 : record.peer}],
            {record, is_open ? now_ns : record.ended_ns});
    }
  }
  std::string text;
  size_t number = kFirstTrack;
  for (const auto& [track, rows] : tracks)
    for (const Row& row : rows) {
      text += trackNameEvent(rank, number, track.name());
      for (const auto& [record, ended_ns] : row)
        text += formatString(
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%zu,\"ts\":%s,\"dur\":%s,\"args\":{%s,"
            "\"started_after_us\":%s}}",
            nameOf(record).c_str(), rank, number, microsecondsText(record.enqueued_ns + to_wall_ns).c_str(),
            microsecondsText(ended_ns - record.enqueued_ns).c_str(),
            messageFields(record, track.by_kernel).c_str(),
            record.state == MessageState::kEnqueued
                ? "null"
                : microsecondsText(record.started_ns - record.enqueued_ns).c_str());
      ++number;
    }
  return text;
}

}  // namespace horing
