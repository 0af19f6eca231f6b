#include "control/unique_id.h"

#include <algorithm>

#include "base/hex.h"
#include "base/wire.h"

namespace horing {

namespace {

// Layout: magic 4, format 1, number of addresses 1, zero 2, job 16, key 32, addresses 67, checksum 4, zero 1, because programs that
// treat an ID as a text drop or overwrite its last byte. An address is its family, 4 or 16 bytes, a port and, for a family with
// kScoped, its interface.
constexpr uint32_t kMagic = 0x44496f68;  // "hoID"
constexpr uint8_t kFormat = 2;
constexpr uint8_t kScoped = 0x10;
constexpr size_t kHeadBytes = 8 + sizeof(JobId) + Key::kBytes;
constexpr size_t kChecksumAt = kUniqueIdBytes - 5;
constexpr size_t kAddressBytes = kChecksumAt - kHeadBytes;

size_t ipBytes(Address::Family family) {
  return family == Address::Family::kIpv4 ? 4 : 16;
}

// FNV-1a: detects damage from copying and printing. It is no protection against forgery; the key is.
uint32_t checksum(const UniqueId& id) {
  uint32_t sum = 2166136261u;
  for (size_t at = 0; at < kChecksumAt; ++at) sum = (sum ^ static_cast<uint32_t>(id.bytes[at])) * 16777619u;
  return sum;
}

Status damaged(const char* what) {
  return makeStatus(
      Code::kInvalidArgument,
      "unique ID: %s. Pass the %zu bytes that horingGetUniqueId wrote, unchanged, to every rank", what,
      kUniqueIdBytes);
}

Result<Endpoint> readEndpoint(WireReader& in) {
  Endpoint endpoint;
  Address& address = endpoint.address;
  const uint8_t kind = in.number<uint8_t>();
  const uint8_t family = kind & ~kScoped;
  const bool is_scoped = family != kind;
  if ((family != 1 || is_scoped) && family != 4 && family != 6)
    return damaged("an address of unknown family");
  address.family = static_cast<Address::Family>(family);
  const std::span<const std::byte> ip = in.raw(ipBytes(address.family));
  std::copy(ip.begin(), ip.end(), std::as_writable_bytes(std::span(address.bytes)).begin());
  endpoint.port = in.number<uint16_t>();
  if (is_scoped) address.scope = in.number<uint32_t>();
  if (in.failed() || endpoint.port == 0 || (is_scoped && address.scope == 0))
    return damaged("an address is incomplete");
  return endpoint;
}

int hexDigit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

}  // namespace

Result<UniqueId> encodeUniqueId(const UniqueIdParts& parts) {
  if (parts.roots.empty())
    return makeStatus(Code::kInvalidArgument, "a unique ID needs an address of the rendezvous");
  WireWriter addresses;
  uint8_t count = 0;
  for (const Endpoint& root : parts.roots) {
    if (root.port == 0)
      return makeStatus(Code::kInvalidArgument, "%s is no address of a rendezvous", root.text().c_str());
    const bool is_scoped = root.address.scope != 0;
    if (addresses.size() + 3 + ipBytes(root.address.family) + (is_scoped ? 4 : 0) > kAddressBytes) continue;
    addresses.number(
        static_cast<uint8_t>(static_cast<uint8_t>(root.address.family) | (is_scoped ? kScoped : 0)));
    addresses.raw(std::as_bytes(std::span(root.address.bytes)).first(ipBytes(root.address.family)));
    addresses.number(root.port);
    if (is_scoped) addresses.number(root.address.scope);
    ++count;
  }
  WireWriter out;
  out.number(kMagic);
  out.number(kFormat);
  out.number(count);
  out.number(uint16_t{0});
  out.raw(parts.job);
  out.raw(parts.key.bytes);
  out.raw(addresses.take());
  const std::vector<std::byte> bytes = out.take();
  UniqueId id;
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  const uint32_t sum = checksum(id);
  for (size_t byte = 0; byte < 4; ++byte)
    id.bytes[kChecksumAt + byte] = static_cast<std::byte>(sum >> (8 * byte));
  return id;
}

Result<UniqueIdParts> decodeUniqueId(const UniqueId& id) {
  WireReader sum(std::span(id.bytes).subspan(kChecksumAt));
  WireReader in(std::span(id.bytes).first(kChecksumAt));
  if (in.number<uint32_t>() != kMagic) return damaged("these bytes are no unique ID");
  if (const uint8_t format = in.number<uint8_t>(); format != kFormat)
    return makeStatus(Code::kInvalidUsage,
                      "unique ID: made by another version of horing (format %u, this library reads %u)",
                      format, kFormat);
  if (sum.number<uint32_t>() != checksum(id) || id.bytes.back() != std::byte{0})
    return damaged("its bytes were altered");
  const uint8_t count = in.number<uint8_t>();
  if (in.number<uint16_t>() != 0 || count == 0) return damaged("its header is malformed");
  UniqueIdParts parts;
  const std::span<const std::byte> job = in.raw(parts.job.size());
  std::copy(job.begin(), job.end(), parts.job.begin());
  const std::span<const std::byte> key = in.raw(Key::kBytes);
  std::copy(key.begin(), key.end(), parts.key.bytes.begin());
  for (uint8_t i = 0; i < count; ++i) {
    HORING_ASSIGN(const Endpoint root, readEndpoint(in));
    parts.roots.push_back(root);
  }
  while (!in.complete()) {
    if (in.number<uint8_t>() != 0 || in.failed()) return damaged("there are bytes after its addresses");
  }
  return parts;
}

std::string uniqueIdToHex(const UniqueId& id) {
  return hexText(id.bytes);
}

Result<UniqueId> uniqueIdFromHex(std::string_view hex) {
  if (hex.size() != 2 * kUniqueIdBytes)
    return makeStatus(Code::kInvalidArgument, "a unique ID has %zu hexadecimal digits, not %zu",
                      2 * kUniqueIdBytes, hex.size());
  UniqueId id;
  for (size_t at = 0; at < kUniqueIdBytes; ++at) {
    const int high = hexDigit(hex[2 * at]);
    const int low = hexDigit(hex[2 * at + 1]);
    if (high < 0 || low < 0)
      return makeStatus(Code::kInvalidArgument, "a unique ID consists of hexadecimal digits only");
    id.bytes[at] = static_cast<std::byte>(high * 16 + low);
  }
  return id;
}

Key jobKey(const UniqueIdParts& parts, std::string_view purpose) {
  const std::string context =
      "job " + std::string(reinterpret_cast<const char*>(parts.job.data()), parts.job.size());
  return Key::derive(parts.key.bytes, context + std::string(purpose));
}

}  // namespace horing
