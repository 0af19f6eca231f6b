#pragma once
// Files that the programs write: pictures, tables, JSON.
#include <string>

#include "base/status.h"

namespace horing {

// Replaces the file. Error: kSystemError names it.
Status writeFile(const std::string& path, const std::string& text);

}  // namespace horing
