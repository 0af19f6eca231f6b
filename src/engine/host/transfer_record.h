#pragma once
// What the flight recorder keeps of a message.
#include <span>

#include "base/message_recorder.h"
#include "engine/host/transfer.h"

namespace horing {

// Of a large group, together.
inline RecordedMessage groupRecordOf(std::span<const Transfer> transfers) {
  RecordedMessage group{.peer = static_cast<int32_t>(transfers.size()), .kind = MessageKind::kGroup};
  for (const Transfer& transfer : transfers) group.bytes += transfer.bytes;
  return group;
}

// `number`: as in RecordedMessage, unless it has a tag.
inline RecordedMessage recordOf(const Transfer& transfer, uint64_t number) {
  RecordedMessage record{
      .bytes = transfer.bytes, .number = number, .peer = transfer.peer, .type = transfer.type};
  if (std::holds_alternative<Transfer::Send>(transfer.kind)) return record;
  record.kind = MessageKind::kReceive;
  if (std::holds_alternative<Transfer::Receive>(transfer.kind)) return record;
  if (const auto* const send = std::get_if<Transfer::TaggedSend>(&transfer.kind)) {
    record.kind = MessageKind::kSend;
    record.number = send->tag, record.has_tag = true;
  } else if (const auto* const receive = std::get_if<Transfer::TaggedReceive>(&transfer.kind)) {
    record.number = receive->tag, record.has_tag = true;
  } else if (const auto* const put = std::get_if<Transfer::Put>(&transfer.kind)) {
    record.kind = put->target.window == 0 ? MessageKind::kSignal : MessageKind::kPut;
  } else {
    record.kind = MessageKind::kSignalWait;
  }
  return record;
}

}  // namespace horing
