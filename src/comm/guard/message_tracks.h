#pragma once
// The messages of a timeline: a track for each peer and direction, and more where messages overlap.
#include <cstdint>
#include <string>

#include "base/message_recorder.h"

namespace horing {

// What a timeline shows its messages by.
struct MessageTracks {
  int rank;
  int64_t to_wall_ns;  // offset from the recorders' clock to wall time
  int64_t now_ns;      // the end of messages that are not complete

  // Events of a timeline, each after a comma; empty if no message was recorded. From when they were enqueued until they were complete.
  std::string toJson(const MessageRecorder& of_host, const MessageRecorder& of_kernels) const;
};

}  // namespace horing
