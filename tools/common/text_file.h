#pragma once
// Files that the programs write: pictures, tables, JSON.
#include <string>

#include "base/status.h"

namespace horing {

// Replaces the file as a whole: if the process ends meanwhile, the file is the old one, or there is none (but for links, pipes, and files
// in folders that are not writable). Error: kSystemError names it.
Status writeFile(const std::string& path, const std::string& text);
// Checks in advance that writeFile() can write, and leaves everything as it is. Error: as for writeFile().
Status checkWritable(const std::string& path);

}  // namespace horing
