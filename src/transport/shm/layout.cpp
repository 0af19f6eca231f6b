#include "transport/shm/layout.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/first_line.h"
#include "transport/shm/directory.h"

namespace horing {
namespace {

template <size_t N>
bool terminated(const std::array<char, N>& text) {
  return std::find(text.begin(), text.end(), '\0') != text.end();
}

// No '/' and no '.': a stem cannot lead out of the directory.
bool isStem(const std::array<char, kMaxShmStemBytes>& text) {
  if (!terminated(text)) return false;
  const std::string stem = text.data();
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return stem.rfind("horing-", 0) == 0 && std::all_of(stem.begin(), stem.end(), allowed);
}

}  // namespace

std::vector<std::byte> encodeShmAddress(const ShmAddress& address) {
  std::vector<std::byte> bytes(sizeof address);
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

std::optional<ShmAddress> decodeShmAddress(std::span<const std::byte> bytes) {
  ShmAddress address;
  if (bytes.size() != sizeof address) return std::nullopt;
  std::memcpy(&address, bytes.data(), sizeof address);
  if (std::memcmp(address.magic.data(), kShmMagic, sizeof kShmMagic) != 0) return std::nullopt;
  if (!terminated(address.boot_id) || !isStem(address.stem) || !isStem(address.bell_stem))
    return std::nullopt;
  return address;
}

Result<ShmAddress> describePlace(const std::string& directory) {
  ShmAddress address;
  std::memcpy(address.magic.data(), kShmMagic, sizeof kShmMagic);
  // If the kernel does not tell the boot ID, device, inode and nonce must suffice.
  const std::string boot_id = firstLine("/proc/sys/kernel/random/boot_id");
  boot_id.copy(address.boot_id.data(), address.boot_id.size() - 1);
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) {
    return systemError(errno, "using %s for shared memory (HORING_SHM_DIR)", directory.c_str());
  }
  if (!S_ISDIR(facts.st_mode)) {
    return makeStatus(Code::kInvalidArgument, "%s is not a directory for shared memory (HORING_SHM_DIR)",
                      directory.c_str());
  }
  address.device = facts.st_dev;
  address.inode = facts.st_ino;
  const std::optional<uint64_t> free = freeBytes(directory);
  address.has_room = !free || *free >= kRoomBytes;
  if (::stat("/proc/self/ns/pid", &facts) == 0) address.pid_namespace = facts.st_ino & 0x7fff'ffff;
  return address;
}

}  // namespace horing
