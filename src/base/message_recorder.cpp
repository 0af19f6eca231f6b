#include "base/message_recorder.h"

#include <algorithm>

namespace horing {

const char* messageKindName(MessageKind kind) {
  switch (kind) {
    case MessageKind::kSend:
      return "send";
    case MessageKind::kReceive:
      return "recv";
    case MessageKind::kPut:
      return "put";
    case MessageKind::kSignal:
      return "signal";
    case MessageKind::kSignalWait:
      return "wait_signal";
    case MessageKind::kGroup:
      return "group";
  }
  return "unknown";
}

const char* messageStateName(MessageState state) {
  switch (state) {
    case MessageState::kEnqueued:
      return "enqueued";
    case MessageState::kStarted:
      return "started";
    case MessageState::kComplete:
      return "complete";
  }
  return "unknown";
}

namespace {
// Of the last `most` of `end` messages, of which the last `kept` are there.
uint64_t firstOfLast(uint64_t end, uint64_t kept, uint64_t most) {
  return end - std::min({end, kept, most});
}
}  // namespace

std::optional<RecordedMessage> MessageRecorder::record(uint64_t sequence) const {
  if (sequence >= begun()) return std::nullopt;
  const std::optional<Entry::Words> words = at(sequence).read();
  if (!words || (*words)[0] != sequence) return std::nullopt;
  const uint64_t word = (*words)[4];
  return RecordedMessage{.sequence = sequence,
                         .bytes = (*words)[1],
                         .number = (*words)[2],
                         .enqueued_ns = static_cast<int64_t>((*words)[3]),
                         .started_ns = static_cast<int64_t>((*words)[5]),
                         .ended_ns = static_cast<int64_t>((*words)[6]),
                         .peer = static_cast<int32_t>(word >> 32),
                         .kind = static_cast<MessageKind>(word >> 8 & 0xff),
                         .type = static_cast<DataType>(word >> 16 & 0xff),
                         .has_tag = (word >> 24 & 0xff) != 0,
                         .state = stateOf(word)};
}

std::vector<RecordedMessage> MessageRecorder::last(size_t most) const {
  std::vector<RecordedMessage> records;
  const uint64_t end = begun();
  addKept(records, firstOfLast(end, mask_ + 1, most), end);
  return records;
}

std::vector<RecordedMessage> MessageRecorder::lastAndOpen(size_t most) const {
  std::vector<RecordedMessage> records;
  const uint64_t end = begun();
  const uint64_t first_of_last = firstOfLast(end, mask_ + 1, most);
  for (uint64_t i = firstOfLast(end, mask_ + 1, end); i < first_of_last && records.size() < most; ++i)
    if (const std::optional<RecordedMessage> found = record(i);
        found && found->state != MessageState::kComplete)
      records.push_back(*found);
  addKept(records, first_of_last, end);
  return records;
}

void MessageRecorder::addKept(std::vector<RecordedMessage>& records, uint64_t first, uint64_t end) const {
  for (uint64_t sequence = first; sequence < end; ++sequence)
    if (const std::optional<RecordedMessage> found = record(sequence)) records.push_back(*found);
}

}  // namespace horing
