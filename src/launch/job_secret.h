#pragma once
// The secret of a job that was started by a launcher without a private channel.
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "control/unique_id.h"

namespace horing {

inline constexpr size_t kMinKeyFileBytes = 32;
inline constexpr size_t kMaxKeyFileBytes = 65536;

// The key in a file: at least 32 random bytes, readable only by the owner, who must be this user or root.
Result<Key> readKeyFile(const std::string& path);

// From HORING_KEY_FILE, or with HORING_INSECURE=1 a well-known key; kInvalidUsage if neither is set. `launcher` is named in the error.
Result<Key> configuredKey(const Config& config, const Log& log, const char* launcher);

// The same text gives the same job everywhere: "torchrun run-17 restart 0".
JobId jobIdOf(std::string_view text);

}  // namespace horing
