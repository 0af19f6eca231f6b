#include "base/version.h"

#include "base/status.h"

namespace horing {

constinit const uint32_t kLibraryVersion = HORING_VERSION_NUMBER;

std::string versionText(uint32_t library_version) {
  return formatString("%u.%u.%u", library_version / 10000, library_version / 100 % 100,
                      library_version % 100);
}

}  // namespace horing
