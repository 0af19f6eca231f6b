#pragma once
// The folder of the user's in which horing keeps what later jobs may find, and files in it that are whole or not there.
#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"

namespace horing {

inline constexpr const char* kNoCache = "off";

// What HORING_CACHE_DIR says: a folder, which need not be there; or, where it says nothing, horing/ under XDG_CACHE_HOME, else under
// ~/.cache. Empty: nothing is to be kept (kNoCache), or there is no home.
std::string cacheFolder(const std::string& setting);

// All of a file; nothing: it is not there. Never waits for a pipe that nobody writes. Errors: it cannot be read, is no file, or is longer
// than `most_bytes`.
Result<std::optional<std::string>> readWhole(const std::string& path, size_t most_bytes);
// In a folder that is made where it is missing, but none above it. Whoever reads meanwhile finds the file from before, or all of the new one; of writers
// at once one is the last. Errors: the system's, and the file from before stays.
Status replaceWhole(const std::string& path, const std::string& text);

}  // namespace horing
