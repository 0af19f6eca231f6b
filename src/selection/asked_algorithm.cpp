#include "selection/asked_algorithm.h"

#include <optional>
#include <vector>

#include "schedule/postcondition.h"
#include "selection/nccl_algorithms.h"
#include "selection/selection.h"

namespace horing {

namespace {

Result<const Algorithm*> algorithmNamed(std::string_view text, Collective collective) {
  const Algorithm* const own = findAlgorithm(text);
  if (own && own->has(collective)) return own;
  // A ring of NCCL's also broadcasts.
  const std::optional<std::vector<ForcedRow>> rows = rowsOfNcclSpelling(text);
  if (!own && (!rows || text.empty()))
    return makeStatus(Code::kInvalidArgument,
                      "algorithm is '%.*s': expected the name of an algorithm (`horing-plan list` has them), "
                      "or names of NCCL's, as ring,tree",
                      static_cast<int>(text.size()), text.data());
  for (const ForcedRow& row : rows.value_or(std::vector<ForcedRow>()))
    if (row.speaksOf(collective)) return row.algorithm;
  if (text.find('^') != std::string_view::npos)
    return makeStatus(
        Code::kInvalidUsage,
        "algorithm is '%.*s': one call cannot exclude algorithms (^): expected the names of those wanted",
        static_cast<int>(text.size()), text.data());
  return makeStatus(Code::kInvalidUsage, "algorithm is '%.*s': none of that name has %s here",
                    static_cast<int>(text.size()), text.data(), collectiveName(collective));
}

}  // namespace

Result<const Algorithm*> askedAlgorithm(std::string_view text, Collective collective, const Config& config,
                                        const GroupMap& map) {
  HORING_ASSIGN(const Algorithm* const found, algorithmNamed(text, collective));
  const auto refused = [&](const char* why) {
    return makeStatus(Code::kInvalidUsage, "algorithm is '%s' for one %s: %s", found->name,
                      collectiveName(collective), why);
  };
  if (found->reachesPeers())
    return refused("it runs only where all ranks reach each other's buffers, which each call finds out");
  if (config.reproducible && contractOf(collective).folds()) {
    if (found->name == std::string_view(kReproducibleAlgorithm)) return found;
    return refused("its results depend on the size, and the communicator is reproducible");
  }
  if (!fitsGroups(*found, map)) return refused("it needs groups of one size, and here they differ");
  return found;
}

}  // namespace horing
