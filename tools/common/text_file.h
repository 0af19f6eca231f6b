#pragma once
// Files that the programs write: pictures, tables, JSON.
#include <string>

#include "base/status.h"

namespace horing {

// Replaces the file. Error: kSystemError names it.
Status writeFile(const std::string& path, const std::string& text);
// Whether writeFile() could, before there is something to write: makes an empty file if there is none. Error: as there.
Status checkWritable(const std::string& path);

}  // namespace horing
