#pragma once
// Pieces of the events of a timeline, as Perfetto reads them.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace horing {

inline std::string microsecondsText(int64_t ns) {
  return formatString("%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
}

// The event that names a track, after a comma.
inline std::string trackNameEvent(int rank, size_t track, const std::string& name) {
  return formatString(
      ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%zu,\"args\":{\"name\":\"%s\"}}", rank,
      track, name.c_str());
}

}  // namespace horing
