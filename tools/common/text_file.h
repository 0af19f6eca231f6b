#pragma once
// Files that the programs write: pictures, tables, JSON.
#include <string>

#include "base/status.h"

namespace horing {

// Replaces the file. Error: kSystemError names it.
Status writeFile(const std::string& path, const std::string& text);
// Checks in advance that writeFile() can write: makes an empty file if there is none. Error: as for writeFile().
Status checkWritable(const std::string& path);

}  // namespace horing
