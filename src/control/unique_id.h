#pragma once
// What a user passes from one rank to all others so that they find and authenticate each other: 128 opaque bytes with the job's id,
// its secret key and the addresses of the rendezvous. Any process that has it can join: treat it as a secret.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/auth.h"
#include "base/endpoint.h"
#include "base/status.h"

namespace horing {

inline constexpr size_t kUniqueIdBytes = 128;

// A value. The bytes come from users and the network and are not trusted before decodeUniqueId().
struct UniqueId {
  std::array<std::byte, kUniqueIdBytes> bytes{};
  bool operator==(const UniqueId&) const = default;
};

// 16 random bytes that distinguish two jobs with one key.
using JobId = std::array<std::byte, 16>;

struct UniqueIdParts {
  JobId job{};
  Key key{};
  std::vector<Endpoint>
      roots;  // addresses of the rendezvous with ports other than 0; the first that answers is used; at least one
};

// Packs as many addresses as fit (9 of IPv4, or 3 of IPv6 and one of IPv4), in order. The last byte is 0. Fails without an
// address or with port 0.
Result<UniqueId> encodeUniqueId(const UniqueIdParts& parts);
// Checks magic, version, checksum, counts, families, ports and that unused bytes are zero.
Result<UniqueIdParts> decodeUniqueId(const UniqueId& id);

// A key for one purpose ("control", "data"), the same on every rank of a job even if their IDs name different addresses. Use this,
// never the ID's key or bytes themselves.
Key jobKey(const UniqueIdParts& parts, std::string_view purpose);

// 256 hexadecimal digits, for environment variables and files.
std::string uniqueIdToHex(const UniqueId& id);
Result<UniqueId> uniqueIdFromHex(std::string_view hex);

}  // namespace horing
