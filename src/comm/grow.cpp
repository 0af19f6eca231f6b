#include "comm/grow.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "comm/invitation.h"
#include "control/wire.h"

namespace horing {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

std::vector<std::byte> encodeGrowth(const Growth& growth) {
  WireWriter writer;
  writer.number(static_cast<uint32_t>(growth.ranks));
  writer.number(static_cast<uint8_t>(growth.id.has_value()));
  writer.number(static_cast<uint8_t>(growth.is_used_up));
  if (growth.id) writer.raw(growth.id->bytes);
  return writer.take();
}

// Checks that all ranks want the same number of ranks and pass one ID.
Result<UniqueId> agreedId(const Blobs& parts, int ranks) {
  std::optional<UniqueId> id;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    WireReader reader(parts[rank]);
    const auto wanted = static_cast<int>(reader.number<uint32_t>());
    const bool has_id = reader.number<uint8_t>() != 0, is_used_up = reader.number<uint8_t>() != 0;
    UniqueId given;
    const auto bytes = reader.raw(has_id ? given.bytes.size() : 0);
    if (!reader.complete())
      return makeStatus(Code::kRemoteError, "the message of rank %zu about the joining ranks is malformed",
                        rank);
    if (wanted != ranks)
      return makeStatus(Code::kInvalidUsage,
                        "rank %zu wants %d ranks, and another one %d: pass the same nRanks on every rank",
                        rank, wanted, ranks);
    if (is_used_up)
      return makeStatus(
          Code::kInvalidUsage,
          "the ID that rank %zu was given was used already, or ranks did not join in time: make "
          "another with horingCommGetUniqueId",
          rank);
    if (!has_id) continue;
    std::copy(bytes.begin(), bytes.end(), given.bytes.begin());
    if (id && *id != given)
      return makeStatus(Code::kInvalidUsage,
                        "rank %zu was given another ID than a rank before it: one rank makes the ID, and the "
                        "others pass that or NULL",
                        rank);
    id = given;
  }
  if (id) return *id;
  return makeStatus(Code::kInvalidUsage,
                    "no rank was given an ID: the one that called horingCommGetUniqueId passes it");
}

}  // namespace

Result<CommunicatorOptions> grow(Communicator& parent, const Growth& growth) {
  const Membership& membership = parent.membership();
  std::vector<int> all(static_cast<size_t>(membership.ranks()));
  std::iota(all.begin(), all.end(), 0);
  const auto part = [&] { return encodeGrowth(growth); };
  HORING_ASSIGN(const Blobs parts, bootstrapAndGather(parent, all, part, "horingCommGrow"));
  CommunicatorOptions larger;
  HORING_ASSIGN(larger.id, agreedId(parts, growth.ranks));
  larger.config = membership.options().config;
  larger.root_was_open = true;
  larger.rank = membership.rank();
  larger.ranks = growth.ranks;
  larger.gpu_bus = membership.options().gpu_bus;
  larger.verbs = membership.options().verbs;
  return larger;
}

}  // namespace horing
