#include "selection/nccl_algorithms.h"

#include <algorithm>

#include "base/check.h"
#include "base/word.h"
#include "selection/table_words.h"

namespace horing {

namespace {

struct Nearest {
  const char* nccl;
  std::optional<Collective> collective;  // nothing: all collectives of `own`
  const char* own;                       // nullptr: no counterpart
};
constexpr Nearest kNearest[] = {
    {"ring", Collective::kBroadcast, "chain"},
    {"ring", Collective::kReduce, "chain"},
    {"ring", std::nullopt, "ring"},
    {"tree", Collective::kAllReduce, "halving_doubling"},
    {"pat", Collective::kAllGather, "halving_doubling"},
    {"pat", Collective::kReduceScatter, "halving_doubling"},
    {"collnet", std::nullopt, nullptr},
    {"collnetdirect", std::nullopt, nullptr},
    {"collnetchain", std::nullopt, nullptr},
    {"nvls", std::nullopt, nullptr},
    {"nvlstree", std::nullopt, nullptr},
};

struct Named {
  const char* nccl;
  Collective collective;
};
constexpr Named kNamed[] = {
    {"allreduce", Collective::kAllReduce},
    {"allgather", Collective::kAllGather},
    {"reducescatter", Collective::kReduceScatter},
    {"broadcast", Collective::kBroadcast},
    {"reduce", Collective::kReduce},
};

// Adds rows for the closest counterpart of `name`, for this collective or for all. False: NCCL has no such algorithm.
bool addNearest(std::string_view name, std::optional<Collective> wanted, std::vector<ForcedRow>& rows) {
  bool is_known = false;
  for (const Nearest& one : kNearest) {
    if (!isSameWord(name, one.nccl)) continue;
    is_known = true;
    if (!one.own || (wanted && one.collective && *one.collective != *wanted)) continue;
    const Algorithm* const algorithm = findAlgorithm(one.own);
    HORING_CHECK(algorithm);
    const std::optional<Collective> of = one.collective ? one.collective : wanted;
    if (!of || algorithm->has(*of)) rows.push_back({of, 0, SIZE_MAX, algorithm});
  }
  return is_known;
}

// "ring,tree", "^nvls".
bool addList(std::string_view list, std::optional<Collective> wanted, std::vector<ForcedRow>& rows) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  if (list.empty()) return false;
  std::vector<ForcedRow> ignored;
  while (!list.empty())
    if (!addNearest(takeUntil(list, ','), wanted, excludes ? ignored : rows)) return false;
  return true;
}

}  // namespace

std::optional<std::vector<ForcedRow>> rowsOfNcclSpelling(std::string_view text) {
  std::vector<ForcedRow> by_collective, of_all;
  while (!text.empty()) {
    std::string_view part = takeUntil(text, ';');
    if (part.find(':') == std::string_view::npos) {
      if (!addList(part, std::nullopt, of_all)) return std::nullopt;
      continue;
    }
    const std::string_view name = takeUntil(part, ':');
    const auto named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                    [&](const Named& one) { return isSameWord(name, one.nccl); });
    if (named == std::end(kNamed) || !addList(part, named->collective, by_collective)) return std::nullopt;
  }
  by_collective.insert(by_collective.end(), of_all.begin(), of_all.end());
  return by_collective;
}

}  // namespace horing
