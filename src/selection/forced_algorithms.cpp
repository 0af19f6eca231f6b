#include "selection/forced_algorithms.h"

#include "selection/nccl_algorithms.h"
#include "selection/table_words.h"

namespace horing {

namespace {

Status wrong(std::string_view whole, const char* expected, std::string_view word) {
  return makeStatus(
      Code::kInvalidArgument,
      "HORING_ALGO=%.*s: expected %s instead of '%.*s'. Write auto, an algorithm (ring, ho_ring, ...; "
      "`horing-plan list` names them), or by collective and size "
      "all_reduce:0-64K=direct,64K-=ho_ring;reduce_scatter=ring",
      static_cast<int>(whole.size()), whole.data(), expected, static_cast<int>(word.size()), word.data());
}

struct Sizes {
  size_t least = 0;
  size_t most = SIZE_MAX;
};

// "0-64K", "64K-".
std::optional<Sizes> parseSizes(std::string_view word) {
  const size_t dash = word.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto least = parseTableBytes(word.substr(0, dash));
  const auto most =
      dash + 1 == word.size() ? std::optional(SIZE_MAX) : parseTableBytes(word.substr(dash + 1));
  if (!least || !most || *least > *most) return std::nullopt;
  return Sizes{*least, *most};
}

}  // namespace

Result<ForcedAlgorithms> ForcedAlgorithms::parse(std::string_view text) {
  ForcedAlgorithms forced;
  if (text == "auto") return forced;
  if (text.size() > kMaxForcedBytes)
    return makeStatus(Code::kInvalidArgument,
                      "HORING_ALGO is longer than %zu bytes: write a table (HORING_SELECTION)",
                      kMaxForcedBytes);
  if (text.find('=') == std::string_view::npos) {
    if (const Algorithm* algorithm = findAlgorithm(text)) {
      forced.rows_.push_back({std::nullopt, 0, SIZE_MAX, algorithm});
    } else if (auto rows = rowsOfNcclSpelling(text)) {
      forced.rows_ = std::move(*rows);
    } else {
      return wrong(text, "an algorithm", text);
    }
    return forced;
  }
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view part = takeUntil(rest, ';');
    const size_t name_end = part.find_first_of(":=");
    const std::string_view name = part.substr(0, name_end);
    const auto collective = parseCollective(name);
    if (!collective || name_end == std::string_view::npos)
      return wrong(text, "a collective, as all_reduce=ring", part);
    const bool has_sizes = part[name_end] == ':';
    part.remove_prefix(name_end + 1);
    do {
      std::string_view choice = has_sizes ? takeUntil(part, ',') : std::exchange(part, {});
      ForcedRow row{collective};
      if (has_sizes) {
        const std::string_view word = takeUntil(choice, '=');
        const auto sizes = parseSizes(word);
        if (!sizes) return wrong(text, "sizes, as 0-64K or 64K-,", word);
        row.least_bytes = sizes->least;
        row.most_bytes = sizes->most;
      }
      row.algorithm = findAlgorithm(choice);
      if (!row.algorithm) return wrong(text, "an algorithm", choice);
      if (!row.algorithm->has(*collective))
        return wrong(text, formatString("an algorithm that has %s", collectiveName(*collective)).c_str(),
                     choice);
      forced.rows_.push_back(row);
    } while (!part.empty());
  }
  return forced;
}

const Algorithm* ForcedAlgorithms::find(Collective collective, size_t bytes) const {
  for (const ForcedRow& row : rows_)
    if (row.speaksOf(collective) && row.least_bytes <= bytes && bytes <= row.most_bytes) return row.algorithm;
  return nullptr;
}

}  // namespace horing
