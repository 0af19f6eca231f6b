#pragma once
// The user's cache folder, whose files later jobs read. A file there is complete or absent.
#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"

namespace horing {

inline constexpr const char* kNoCache = "off";

// The folder that HORING_CACHE_DIR names, which need not exist; if it is unset, horing/ under XDG_CACHE_HOME, else under ~/.cache. Empty:
// the cache is off (kNoCache), or there is no home directory.
std::string cacheFolder(const std::string& setting);

// The contents of a file; nothing if it does not exist. Never blocks on a pipe. Errors: unreadable, not a regular file, or longer than
// `most_bytes`.
Result<std::optional<std::string>> readWhole(const std::string& path, size_t most_bytes);
// Replaces a file atomically: a concurrent reader sees the old file or all of the new one; of concurrent writers the last wins. Makes the
// folder if it is missing, but not its parents. Errors: the system's; the old file then stays.
Status replaceWhole(const std::string& path, const std::string& text);

}  // namespace horing
