#include "common/text_file.h"

#include <cerrno>
#include <fstream>

namespace horing {

Status writeFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status() : systemError(errno, "cannot write %s", path.c_str());
}

Status checkWritable(const std::string& path) {
  const std::ofstream file(path, std::ios::app);
  return file ? Status() : systemError(errno, "cannot write %s", path.c_str());
}

}  // namespace horing
