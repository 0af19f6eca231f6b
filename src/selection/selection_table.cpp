#include "selection/selection_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/printable.h"
#include "selection/table_words.h"

namespace horing {

namespace {

// Measured with 2 to 32 ranks on one machine of two cores, on one node and across two and four emulated ones at 500 and 1000 Mbit/s. Rows of
// more ranks, of more than four groups, and of more than two ranks with a core for each, follow from the number of hops.
//
// If ranks share cores, a message waits until its receiver is scheduled, and the total work of all ranks counts, so the algorithms with the
// fewest messages are the fastest: one rank of a node reduces for all (star, ho_leaders), up to the size at which its reads cost more than
// the messages of the other ranks, which differs between machines (star at 64 KiB took 0.7 to 1.3 of direct's time). Broadcast and reduce
// were measured in calls one after the other, so that these overlap.
constexpr std::string_view kBuiltIn = R"(
all_reduce      1    3-4   >1   8K    one_shot
all_reduce      1    3-4   >1   32K   doubling
all_reduce      1    3-4   >1   128K  star
all_reduce      1    3-4   >1   704K  direct
all_reduce      1    3-4   >1   16M   halving_doubling
all_reduce      1    5-8   >1   512   one_shot
all_reduce      1    5-32  >1   512K  star
all_reduce      1    5-32  >1   *     ring
reduce_scatter  1    3-16  >1   512K  direct
reduce_scatter  1    3-8   >1   16M   halving_doubling
reduce_scatter  1    9-16  >1   2M    halving_doubling
reduce_scatter  1    17-32 >1   8K    direct
reduce_scatter  1    17-32 >1   2M    ho_leaders
all_gather      1    3-4   >1   128K  direct
all_gather      1    5-8   >1   512K  direct
all_gather      1    3-8   >1   16M   halving_doubling
all_gather      1    9-32  >1   16K   direct
all_gather      1    9-32  >1   128K  ho_leaders
all_gather      1    9-32  >1   512K  halving_doubling
all_gather      1    9-32  >1   *     ring
all_reduce      1    2     *    8K    one_shot
all_reduce      1    3-4   *    8K    one_shot
all_reduce      1    3-4   *    1M    direct
all_reduce      1    5-8   *    2K    one_shot
all_reduce      1    5-8   *    512K  direct
all_reduce      1    9-32  *    64    direct
all_reduce      1    9-    *    16K   doubling
all_reduce      1    9-16  *    512K  direct
all_reduce      1    17-32 *    1M    direct
all_reduce      2    3-4   *    8K    ho_leaders
all_reduce      2    3-4   <=1  32K   ho_doubling
all_reduce      2    2-    *    64K   ho_leaders
all_reduce      2    2-    *    4M    ho_direct
all_reduce      3-4  2-    *    8K    ho_leaders
all_reduce      3-4  9-    >1   32K   ho_leaders
all_reduce      3-4  2-8   >1   256K  ho_leaders_split
all_reduce      3-4  2-    *    32K   ho_doubling
all_reduce      5-   2-    *    16K   ho_leaders
all_reduce      3-   2-    *    512K  ho_halving
all_reduce      2-   *     *    8K    doubling
reduce_scatter  1    3-4   *    4M    direct
reduce_scatter  1    5-8   *    256K  direct
reduce_scatter  1    9-16  *    512K  direct
reduce_scatter  1    17-32 *    1M    direct
reduce_scatter  2    3-    >1   2M    ho_leaders
reduce_scatter  2    5-    *    8K    ho_leaders
reduce_scatter  2    2-    *    512K  ho_direct
reduce_scatter  2    2-    *    2M    ho_leaders
reduce_scatter  2    2-    *    4M    ho_direct
reduce_scatter  3-4  2-3   >1   128K  ho_leaders
reduce_scatter  3-4  9-16  >1   64K   ho_leaders
reduce_scatter  3-4  2-16  *    32K   ho_leaders
reduce_scatter  3-   2-    *    128K  ho_halving
all_gather      1    3-4   *    2M    direct
all_gather      1    5-8   *    512K  direct
all_gather      1    9-16  *    512K  direct
all_gather      1    17-32 *    1M    direct
all_gather      2    3-    >1   64K   ho_leaders
all_gather      2    5-    *    8K    ho_leaders
all_gather      3-4  2-    >1   64K   ho_leaders
all_gather      3-4  2-    *    32K   ho_leaders
all_gather      3-   2-    *    512K  ho_halving
all_gather      2    2-    *    4M    ho_direct
broadcast       1    2-4   >1   16K   star
broadcast       1    5-    >1   16K   binomial
broadcast       1    *     >1   *     chain
broadcast       1    2-4   *    256K  star
broadcast       1    *     *    16K   binomial
broadcast       2-   *     *    8K    ho_binomial
broadcast       2-   *     *    *     ho_chain
reduce          1    2-4   *    256K  star
reduce          1    *     *    16K   binomial
reduce          2-4  1-4   *    4K    star
reduce          2-   *     *    8K    ho_binomial
reduce          2-   *     *    *     ho_chain
all_to_all      2-   2-    *    128K  pairwise
all_to_all      2-   2-    *    *     ho_pairwise
*               1    *     *    *     ring
*               2-   2-    *    *     ho_ring
*               *    *     *    *     ring
*               *    *     *    *     chain
*               *    *     *    *     star
*               *    *     *    *     pairwise
)";

constexpr size_t kColumns = 6;
using Words = std::array<std::string_view, kColumns>;

// Splits a line into words; there may be more than fit.
size_t split(std::string_view line, Words& words) {
  size_t count = 0;
  line = line.substr(0, line.find('#'));
  constexpr const char* kBlank = " \t\r";
  for (size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;
       at = line.find_first_not_of(kBlank)) {
    line.remove_prefix(at);
    const size_t end = std::min(line.find_first_of(kBlank), line.size());
    if (count < kColumns) words[count] = line.substr(0, end);
    ++count;
    line.remove_prefix(end);
  }
  return count;
}

template <typename Number>
std::optional<Number> parseNumber(std::string_view word) {
  Number value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<SelectionRow::Range> parseRange(std::string_view word) {
  SelectionRow::Range range;
  if (word == "*") return range;
  const size_t dash = word.find('-');
  const auto least = parseNumber<int32_t>(word.substr(0, dash));
  const bool is_open = dash != std::string_view::npos && dash + 1 == word.size();
  const auto most = dash == std::string_view::npos ? least
                    : is_open                      ? std::optional(INT32_MAX)
                                                   : parseNumber<int32_t>(word.substr(dash + 1));
  if (!least || !most || *least < 1 || *most < *least) return std::nullopt;
  return SelectionRow::Range{*least, *most};
}

std::optional<RanksPerCore> parseRanksPerCore(std::string_view word) {
  for (const auto value : {RanksPerCore::kAny, RanksPerCore::kAtMostOne, RanksPerCore::kMore})
    if (word == ranksPerCoreText(value)) return value;
  return std::nullopt;
}

std::optional<size_t> parseMostBytes(std::string_view word) {
  return word == "*" ? std::optional(SIZE_MAX) : parseTableBytes(word);
}

// The fault of the row; empty: none.
std::string parseRow(const Words& words, SelectionRow& row) {
  const auto wrong = [](const char* expected, std::string_view word) {
    return formatString("expected %s instead of '%s'", expected, printable(word, 40).c_str());
  };
  row.every_collective = words[0] == "*";
  if (!row.every_collective) {
    const auto collective = parseCollective(words[0]);
    if (!collective) return wrong("a collective, as all_reduce, or *", words[0]);
    row.collective = *collective;
  }
  const auto groups = parseRange(words[1]), members = parseRange(words[2]);
  if (!groups || !members)
    return wrong("a number from 1 on, as 3, 2-4, 2- or *", groups ? words[2] : words[1]);
  const auto ranks_per_core = parseRanksPerCore(words[3]);
  if (!ranks_per_core) return wrong("ranks per core, as <=1, >1 or *,", words[3]);
  const auto bytes = parseMostBytes(words[4]);
  if (!bytes) return wrong("a number of bytes, as 64, 4K, 1M or *", words[4]);
  row.groups = *groups;
  row.members = *members;
  row.ranks_per_core = *ranks_per_core;
  row.most_bytes = *bytes;
  row.algorithm = findAlgorithm(words[5]);
  if (!row.algorithm) return wrong("an algorithm, as ring", words[5]);
  if (row.algorithm->reachesPeers())
    return formatString("%s serves no row: it runs where ranks can reach each other's buffers",
                        row.algorithm->name);
  if (!row.every_collective && !row.algorithm->has(row.collective))
    return formatString("%s has no %s", row.algorithm->name, collectiveName(row.collective));
  return {};
}

std::string rangeText(const SelectionRow::Range& range) {
  if (range == SelectionRow::Range()) return "*";
  if (range.least == range.most) return formatString("%d", range.least);
  return range.most == INT32_MAX ? formatString("%d-", range.least)
                                 : formatString("%d-%d", range.least, range.most);
}

std::string mostBytesText(size_t bytes) {
  return bytes == SIZE_MAX ? "*" : tableBytesText(bytes);
}

}  // namespace

const char* ranksPerCoreText(RanksPerCore ranks_per_core) {
  switch (ranks_per_core) {
    case RanksPerCore::kAny:
      break;
    case RanksPerCore::kAtMostOne:
      return "<=1";
    case RanksPerCore::kMore:
      return ">1";
  }
  return "*";
}

const SelectionTable& SelectionTable::builtIn() {
  // Never destroyed: calls may come during exit.
  static const auto* const table = new SelectionTable(parse(kBuiltIn, "built in").take());
  return *table;
}

Result<SelectionTable> SelectionTable::parse(std::string_view text, std::string_view source) {
  SelectionTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Words words;
    const size_t count = split(line, words);
    if (count == 0) continue;
    SelectionRow row;
    std::string wrong = count == kColumns
                            ? parseRow(words, row)
                            : formatString(
                                  "%zu words; expected collective, groups, ranks of each, ranks per "
                                  "core, bytes, algorithm",
                                  count);
    if (wrong.empty() && table.rows_.size() == kMaxSelectionRows)
      wrong = formatString("more than %zu rows", kMaxSelectionRows);
    if (!wrong.empty())
      return makeStatus(Code::kInvalidArgument, "selection table %.*s, line %d: %s",
                        static_cast<int>(source.size()), source.data(), number, wrong.c_str());
    table.rows_.push_back(row);
  }
  return table;
}

Result<SelectionTable> SelectionTable::read(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file)
    return makeStatus(Code::kInvalidArgument, "cannot open the selection table HORING_SELECTION=%s: %s",
                      path.c_str(), std::strerror(errno));
  std::string text(kMaxSelectionBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed || text.size() > kMaxSelectionBytes)
    return makeStatus(Code::kInvalidArgument, "cannot read the selection table HORING_SELECTION=%s: %s",
                      path.c_str(), failed ? "it is no file, or broken" : "it is longer than 64 KiB");
  return parse(text, path);
}

Result<SelectionTable> SelectionTable::fromSetting(const std::string& selection) {
  for (const char* word : {kSelectionAuto, kSelectionByTable, kSelectionByModel})
    if (selection == word) return builtIn();
  return read(selection);
}

SelectionTable SelectionTable::only(const Algorithm& algorithm) {
  SelectionTable table;
  SelectionRow& row = table.rows_.emplace_back();
  row.every_collective = true;
  row.algorithm = &algorithm;
  return table;
}

const Algorithm* SelectionTable::find(Collective collective, const JobShape& job, size_t bytes) const {
  for (const SelectionRow& row : rows_)
    if (row.fits(collective, job) && row.algorithm->has(collective) && bytes <= row.most_bytes)
      return row.algorithm;
  return nullptr;
}

std::string SelectionTable::text() const {
  std::string text = "# collective    groups  ranks of each  ranks per core  up to bytes  algorithm\n";
  for (const SelectionRow& row : rows_)
    text += formatString(
        "%-15s %-7s %-14s %-15s %-12s %s\n", row.every_collective ? "*" : collectiveName(row.collective),
        rangeText(row.groups).c_str(), rangeText(row.members).c_str(), ranksPerCoreText(row.ranks_per_core),
        mostBytesText(row.most_bytes).c_str(), row.algorithm->name);
  return text;
}

// FNV-1a over the text.
uint64_t SelectionTable::digest() const {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text()) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

}  // namespace horing
