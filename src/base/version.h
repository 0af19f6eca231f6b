#pragma once
// The version numbers that the two ends of a connection compare.
#include <cstdint>
#include <string>

namespace horing {

// Raised whenever the wire format changes: handshake, control messages, data frames, and how a call is cut into messages.
inline constexpr uint32_t kProtocolVersion = 21;
// major * 10000 + minor * 100 + patch, as in the C API, whose header states it.
extern const uint32_t kLibraryVersion;

// "0.1.0" of 100.
std::string versionText(uint32_t library_version);

}  // namespace horing
