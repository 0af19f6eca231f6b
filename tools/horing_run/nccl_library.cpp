#include "horing_run/nccl_library.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace horing::run {

Status offerNccl() {
  namespace fs = std::filesystem;
  constexpr const char* kVariable = "LD_AUDIT";
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path library = (programs / HORING_RUN_TO_LIBRARIES / "libhoring_audit.so").lexically_normal();
  if (!fs::exists(library, error) || !fs::exists(library.parent_path() / "libnccl.so.2", error))
    return makeStatus(
        Code::kSystemError,
        "--nccl: %s or the libnccl.so.2 next to it does not exist: ./tools/dev build makes them",
        library.c_str());
  const char* const before = std::getenv(kVariable);
  const std::string all = library.string() + (before && *before ? std::string(":") + before : "");
  if (::setenv(kVariable, all.c_str(), 1) != 0) return systemError(errno, "setting LD_AUDIT");
  return {};
}

}  // namespace horing::run
