#include "comm/grow.h"

#include <numeric>
#include <vector>

#include "base/fields.h"
#include "comm/invitation.h"

namespace horing {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

// What each rank tells the others.
struct GrowthMessage {
  Growth growth;
};
void fields(auto& wire, Is<GrowthMessage> auto& message) {
  auto& [ranks, id, is_used_up] = message.growth;
  wire.numbers(ranks, is_used_up);
  wire.optional(id, [&](auto& given) { wire.raw(given.bytes); });
}

// Checks that all ranks want the same number of ranks and pass one ID.
Result<UniqueId> agreedId(const Blobs& parts, int ranks) {
  std::optional<UniqueId> id;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    GrowthMessage message;
    if (!decodeFields(parts[rank], message))
      return makeStatus(Code::kRemoteError, "the message of rank %zu about the joining ranks is malformed",
                        rank);
    const Growth& told = message.growth;
    if (told.ranks != ranks)
      return makeStatus(Code::kInvalidUsage,
                        "rank %zu wants %d ranks, and another one %d: pass the same nRanks on every rank",
                        rank, told.ranks, ranks);
    if (told.is_used_up)
      return makeStatus(
          Code::kInvalidUsage,
          "the ID that rank %zu was given was used already, or ranks did not join in time: make "
          "another with horingCommGetUniqueId",
          rank);
    if (!told.id) continue;
    if (id && *id != *told.id)
      return makeStatus(Code::kInvalidUsage,
                        "rank %zu was given another ID than a rank before it: one rank makes the ID, and the "
                        "others pass that or NULL",
                        rank);
    id = told.id;
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
  const auto part = [&] { return encodeFields(GrowthMessage{growth}); };
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
