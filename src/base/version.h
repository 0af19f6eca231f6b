#pragma once
// The numbers by which two ends of a connection recognise each other.
#include <cstdint>
#include <string>

namespace horing {

// Raised whenever bytes on a wire change meaning: handshake, control messages, data frames.
inline constexpr uint32_t kProtocolVersion = 10;
// major * 10000 + minor * 100 + patch, as in the C API, whose header states it.
extern const uint32_t kLibraryVersion;

// "0.1.0" of 100.
std::string versionText(uint32_t library_version);

}  // namespace horing
