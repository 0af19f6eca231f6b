#include "horing_info/selection.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/cache_folder.h"
#include "base/config.h"
#include "selection/kept_table.h"
#include "selection/model_selection.h"
#include "selection/selection.h"
#include "selection/table_words.h"

namespace horing::info {

namespace {

// As comments: where the rows come from, and for which jobs others take their place.
std::string sourceOfTable(const Config& config) {
  const bool is_auto = config.selection == kSelectionAuto;
  if (!is_auto && config.selection != kSelectionByTable) return "# the table in " + config.selection + "\n";
  std::string text = "# the table that is built in\n";
  if (!is_auto) return text;
  for (const std::string& path : KeptTables(cacheFolder(config.cache_dir)).paths()) {
    const Result<std::optional<std::string>> kept_text = readWhole(path, kMaxSelectionBytes);
    const std::string what = kept_text.ok() && kept_text.value() ? keptForLine(*kept_text.value()) : "";
    text += "# kept (HORING_CACHE_DIR): " + path + " for " + (what.empty() ? "no job: it is damaged" : what) +
            "\n";
  }
  return text;
}

struct TableInEffect {
  SelectionTable table;
  std::string name;      // in the last column
  std::string comments;  // where it comes from
};

// Unless a table is set, one that is kept for such jobs comes before the built-in one. What else they have in common is not known here.
Result<TableInEffect> tableFor(const Config& config, const JobShape& shape) {
  TableInEffect found;
  HORING_ASSIGN(found.table, SelectionTable::fromSetting(config.selection));
  const bool is_auto = config.selection == kSelectionAuto;
  found.name = is_auto || config.selection == kSelectionByTable ? "the built-in table" : config.selection;
  bool has_kept = false;
  for (const KeptTables::Found& kept : is_auto ? KeptTables(cacheFolder(config.cache_dir)).forShape(shape)
                                               : std::vector<KeptTables::Found>()) {
    if (!kept.table.ok()) {
      found.comments += "# not used: " + kept.path + ", " + kept.table.status().message() + "\n";
    } else if (has_kept) {
      found.comments +=
          "# also kept (HORING_SELECTION=FILE explains it): " + kept.path + " for " + kept.job + "\n";
    } else {
      has_kept = true;
      found.table = kept.table.value();
      found.name = "the kept table";
      found.comments += "# the kept table: " + kept.path + " for " + kept.job +
                        "\n# only a job that is the same in all of this takes it: transports, hosts, cores, "
                        "slots and links, too\n";
    }
  }
  if (is_auto && !has_kept && shape.groups > 1)
    found.comments +=
        "# between nodes a job measures first (HORING_CALIBRATE), and may choose otherwise by what it "
        "finds\n";
  return found;
}

// Rates of links are known to no table.
std::string ratesComment(const Config& config, const AskedJob& job) {
  const JobShape shape{job.nodes, job.ranks,
                       job.shares_cores ? RanksPerCore::kMore : RanksPerCore::kAtMostOne};
  const bool by_itself = config.calibrate == kCalibrateOnce && config.selection == kSelectionAuto &&
                         config.algorithm == kSelectionAuto && config.cache_dir != kNoCache &&
                         job.nodes * job.ranks <= kMostMeasuredRanks;
  if (config.reproducible || !canFollowRates(shape) || !(by_itself || config.calibrate == kCalibrateAlways))
    return "";
  return formatString(
      "# links: a job measures their rates when it starts (HORING_CALIBRATE). Where those of nodes differ "
      "by more than a fifth, %s serves all_reduce from %s on\n",
      kUnequalAlgorithm, tableBytesText(leastUnequalBytes(job.nodes)).c_str());
}

std::string forcedComment(const Config& config) {
  const Result<ForcedAlgorithms> forced = ForcedAlgorithms::parse(config.algorithm);
  if (!forced.ok()) return "# HORING_ALGO: " + forced.status().message() + "\n";
  return forced.value().rows().empty()
             ? ""
             : "# HORING_ALGO=" + config.algorithm + " counts before the rows, for what it speaks of\n";
}

Result<MachineModel> machineOf(const Config& config) {
  if (!readsMachine(config))
    return makeStatus(
        Code::kInvalidUsage,
        "HORING_CALIBRATE=auto or 1 measures while a job starts: let 'horing-tune -o FILE' measure, "
        "and give FILE here");
  return readMachine(config.calibrate);
}

constexpr uint64_t kLeastBytes = 64, kMostBytes = 64 << 20;

struct Explained {
  uint64_t bytes = 0;
  const Algorithm* algorithm = nullptr;
  std::string instead;  // where peers reach each other's buffers
  std::string source;
  Picoseconds time = 0;  // 0: not predicted
  const Algorithm* next = nullptr;
  Picoseconds next_time = 0;

  bool sameChoice(const Explained& other) const {
    return algorithm == other.algorithm && instead == other.instead && source == other.source &&
           next == other.next;
  }
};

class Explanation {
 public:
  Explanation(const AskedJob& job, const Config& config, SelectionTable table, std::string table_name,
              const MachineModel& machine)
      : job_(job),
        config_(config),
        table_(std::move(table)),
        table_name_(std::move(table_name)),
        machine_(machine),
        map_(GroupMap::blocks(job.nodes, job.ranks)),
        ground_{config_,        map_,
                table_,         job.nodes == 1,
                job.nodes == 1, job.shares_cores ? RanksPerCore::kMore : RanksPerCore::kAtMostOne},
        selector_(ground_) {
    const Result<ForcedAlgorithms> forced = ForcedAlgorithms::parse(config.algorithm);
    if (forced.ok()) forced_ = forced.value();
  }

  std::string text() const {
    std::string text;
    if (!selector_.fallback().empty()) text += "# " + selector_.fallback() + "\n";
    text +=
        "# best other: the fastest of the others, by prediction. Where it is faster than the algorithm that "
        "is chosen, the row was measured, or predictions err by more.\n# -: it cannot be predicted, or takes "
        "too long. The last row of a collective holds for "
        "all larger sizes, too.\n";
    text += formatString("# %-14s %-10s %-18s %10s  %-18s %10s  %s\n", "collective", "up to", "algorithm",
                         "predicted", "best other", "predicted", "chosen by");
    for (int number = 0; number < kCollectives; ++number) text += rowsOf(static_cast<Collective>(number));
    return text;
  }

 private:
  const SelectionRow* rowOf(Collective collective, uint64_t bytes) const {
    const JobShape shape{job_.nodes, job_.ranks, ground_.ranks_per_core};
    for (const SelectionRow& row : table_.rows())
      if (row.fits(collective, shape) && row.algorithm->has(collective) && row.most_bytes >= bytes)
        return &row;
    return nullptr;
  }

  std::string sourceOf(Collective collective, uint64_t bytes, const Algorithm& chosen) const {
    if (config_.reproducible && contractOf(collective).folds()) return "HORING_REPRODUCIBLE";
    if (forced_.find(collective, bytes) == &chosen) return "HORING_ALGO";
    const SelectionRow* const row = rowOf(collective, bytes);
    if (!row) return "no row, so the plainest";
    return formatString("row %td of %s", row - table_.rows().data() + 1, table_name_.c_str());
  }

  // Sizes by powers of 4, and where rows end.
  std::vector<uint64_t> sizes(Collective collective) const {
    std::set<uint64_t> sizes;
    for (uint64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) sizes.insert(bytes);
    for (const SelectionRow& row : table_.rows())
      if ((row.every_collective || row.collective == collective) && row.most_bytes >= kLeastBytes &&
          row.most_bytes <= kMostBytes)
        sizes.insert(row.most_bytes);
    return {sizes.begin(), sizes.end()};
  }

  // `others`: of `predicted`, what may be the best other.
  Explained explain(Collective collective, uint64_t bytes, const std::vector<PredictedTimes>& predicted,
                    const std::vector<PredictedTimes>& others, size_t size) const {
    Explained found;
    found.bytes = bytes;
    found.algorithm = selector_.select(collective, bytes).algorithm;
    for (const Selection& shared : selector_.selectShared(collective, bytes))
      if (found.instead.empty()) found.instead = shared.algorithm->name;
    found.source = sourceOf(collective, bytes, *found.algorithm);
    for (const auto& [algorithm, times] : predicted)
      if (algorithm == found.algorithm) found.time = times[size];
    if (const PredictedTimes* const next = fastestBut(found.algorithm, others, size))
      found.next = next->algorithm, found.next_time = next->times[size];
    return found;
  }

  static std::string timeText(Picoseconds time) {
    return time > 0 ? formatString("%.1f us", toMicroseconds(time)) : "-";
  }

  std::string rowsOf(Collective collective) const {
    std::vector<Explained> rows;
    const std::vector<uint64_t> asked = sizes(collective);
    const Result<std::vector<PredictedTimes>> predicted =
        predictTimes(questionOf(config_, machine_), collective, asked);
    if (!predicted.ok()) return "# " + predicted.status().message() + "\n";
    std::vector<PredictedTimes> others = predicted.value();
    // On one node these are what they are made of.
    if (job_.nodes == 1)
      std::erase_if(others, [](const PredictedTimes& each) {
        return std::string_view(each.algorithm->name).starts_with("ho_");
      });
    for (size_t i = 0; i < asked.size(); ++i) {
      Explained found = explain(collective, asked[i], predicted.value(), others, i);
      if (!rows.empty() && rows.back().sameChoice(found)) rows.pop_back();
      rows.push_back(std::move(found));
    }
    std::string text;
    for (const Explained& row : rows)
      text += formatString(
          "%-16s %-10s %-18s %10s  %-18s %10s  %s%s\n", collectiveName(collective),
          tableBytesText(row.bytes).c_str(), row.algorithm->name, timeText(row.time).c_str(),
          row.next ? row.next->name : "-", timeText(row.next_time).c_str(), row.source.c_str(),
          row.instead.empty() ? ""
                              : ("; " + row.instead + " where ranks reach each other's buffers").c_str());
    return text;
  }

  const AskedJob& job_;
  const Config& config_;
  SelectionTable table_;
  std::string table_name_;
  const MachineModel& machine_;
  GroupMap map_;
  SelectionGround ground_;
  Selector selector_;
  ForcedAlgorithms forced_;
};

}  // namespace

Result<std::string> selectionInEffect() {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  if (!selectsByModel(config)) {
    HORING_ASSIGN(const SelectionTable table, SelectionTable::fromSetting(config.selection));
    return sourceOfTable(config) + forcedComment(config) + table.text();
  }
  if (config.calibrate == kCalibrateNever) return modelNeedsMachine();
  HORING_ASSIGN(const MachineModel machine, machineOf(config));
  HORING_ASSIGN(const std::string table, modelTableText(config, machine, jobOn(machine)));
  return "# the machine in " + config.calibrate + "\n" + forcedComment(config) + table;
}

std::optional<AskedJob> parseJob(const std::string& text) {
  AskedJob job;
  const char *at = text.data(), *const end = at + text.size();
  const auto nodes = std::from_chars(at, end, job.nodes);
  if (nodes.ec != std::errc() || nodes.ptr == end || *nodes.ptr != 'x') return {};
  const auto ranks = std::from_chars(nodes.ptr + 1, end, job.ranks);
  if (ranks.ec != std::errc() || ranks.ptr != end) return {};
  const bool is_possible = job.nodes >= 1 && job.ranks >= 1 && job.nodes <= kMaxModelNodes &&
                           job.ranks <= kMaxModelRanksPerNode &&
                           int64_t{job.nodes} * job.ranks <= kMostPredictedRanks;
  return is_possible ? std::optional(job) : std::nullopt;
}

Result<std::string> selectionExplained(const AskedJob& job) {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  HORING_TRY(checkForced(config));
  const bool is_known = readsMachine(config);
  MachineModel machine;
  if (is_known) {
    HORING_ASSIGN(machine, readMachine(config.calibrate));
  }
  machine.setNodes(std::vector<int32_t>(static_cast<size_t>(job.nodes), job.ranks));
  std::string text = formatString("# %d node%s of %d ranks, %s\n", job.nodes, job.nodes == 1 ? "" : "s",
                                  job.ranks, job.shares_cores ? "more ranks than cores" : "a core for each");
  text += is_known ? "# times: predicted for the machine in " + config.calibrate + "\n"
                   : "# times: predicted for the machine that horing-sim assumes; HORING_CALIBRATE=FILE "
                     "names one that horing-tune measured\n";
  const Status links = checkLinksKnown(machine);
  if (!links.ok()) text += "# no times: " + links.message() + "\n";
  text += ratesComment(config, job);
  const JobShape shape{job.nodes, job.ranks,
                       job.shares_cores ? RanksPerCore::kMore : RanksPerCore::kAtMostOne};
  if (selectsByModel(config)) {
    HORING_ASSIGN(const std::string rows, modelTableText(config, machine, shape));
    HORING_ASSIGN(SelectionTable table, SelectionTable::parse(rows, "the model"));
    return text + Explanation(job, config, std::move(table), "the model's table", machine).text();
  }
  HORING_ASSIGN(TableInEffect in_effect, tableFor(config, shape));
  return text + in_effect.comments +
         Explanation(job, config, std::move(in_effect.table), in_effect.name, machine).text();
}

}  // namespace horing::info
