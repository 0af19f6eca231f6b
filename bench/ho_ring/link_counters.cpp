#include "ho_ring/link_counters.h"

#include <filesystem>
#include <fstream>

namespace horing::bench {

namespace {

Result<uint64_t> readNumber(const std::filesystem::path& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return makeStatus(Code::kSystemError, "cannot read a number from %s", path.c_str());
}

}  // namespace

Result<LinkBytes> readLinkBytes(const std::string& directory) {
  LinkBytes all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::filesystem::path statistics = entry.path() / "statistics";
    // Some entries (bonding_masters) are plain files.
    if (entry.path().filename() == "lo" || !std::filesystem::exists(statistics, error)) continue;
    HORING_ASSIGN(const uint64_t received, readNumber(statistics / "rx_bytes"));
    HORING_ASSIGN(const uint64_t sent, readNumber(statistics / "tx_bytes"));
    all.received += received;
    all.sent += sent;
  }
  if (error)
    return makeStatus(Code::kSystemError, "cannot list %s: %s", directory.c_str(), error.message().c_str());
  return all;
}

}  // namespace horing::bench
