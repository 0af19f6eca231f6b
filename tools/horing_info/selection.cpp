#include "horing_info/selection.h"

#include <algorithm>
#include <charconv>
#include <numeric>
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

JobShape shapeOf(const AskedJob& job) {
  return {static_cast<int32_t>(job.ranks.size()), *std::max_element(job.ranks.begin(), job.ranks.end()),
          job.shares_cores ? RanksPerCore::kMore : RanksPerCore::kAtMostOne};
}

int32_t ranksOf(const AskedJob& job) {
  return std::accumulate(job.ranks.begin(), job.ranks.end(), 0);
}

// "4 ranks", "4,3 ranks".
std::string nodesText(const AskedJob& job) {
  std::string text;
  for (const int32_t ranks : job.ranks) text += (text.empty() ? "" : ",") + std::to_string(ranks);
  const size_t nodes = job.ranks.size();
  if (std::set<int32_t>(job.ranks.begin(), job.ranks.end()).size() == 1) text = std::to_string(job.ranks[0]);
  return formatString("%zu node%s of %s ranks", nodes, nodes == 1 ? "" : "s", text.c_str());
}

// Ranks node by node.
GroupMap mapOf(const AskedJob& job) {
  std::vector<std::string> node_of_rank;
  for (size_t node = 0; node < job.ranks.size(); ++node)
    node_of_rank.insert(node_of_rank.end(), static_cast<size_t>(job.ranks[node]), std::to_string(node));
  return GroupMap::fromLabels(node_of_rank).take();
}

// Unless a table is set, one that is kept for such jobs comes before the built-in one. What else they have in common is not known here.
Result<TableInEffect> tableFor(const Config& config, const AskedJob& job) {
  const JobShape shape = shapeOf(job);
  TableInEffect found;
  HORING_ASSIGN(found.table, SelectionTable::fromSetting(config.selection));
  const bool is_auto = config.selection == kSelectionAuto;
  found.name = is_auto || config.selection == kSelectionByTable ? "the built-in table" : config.selection;
  bool has_kept = false;
  for (const KeptTables::Found& kept :
       is_auto ? KeptTables(cacheFolder(config.cache_dir)).forShape(shape, job.ranks)
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
  const JobShape shape = shapeOf(job);
  const bool by_itself = config.calibrate == kCalibrateOnce && config.selection == kSelectionAuto &&
                         config.algorithm == kSelectionAuto && config.cache_dir != kNoCache &&
                         ranksOf(job) <= kMostMeasuredRanks;
  if (config.reproducible || !canFollowRates(shape) || !(by_itself || config.calibrate == kCalibrateAlways))
    return "";
  return formatString(
      "# links: a job measures their rates when it starts (HORING_CALIBRATE). Where those of nodes differ "
      "by more than a fifth, %s serves all_reduce from %s on\n",
      kUnequalAlgorithm, tableBytesText(leastUnequalBytes(shape.groups)).c_str());
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
      : config_(config),
        table_(std::move(table)),
        table_name_(std::move(table_name)),
        machine_(machine),
        shape_(shapeOf(job)),
        map_(mapOf(job)),
        ground_{config_, map_, table_, map_.groups() == 1, map_.groups() == 1, shape_.ranks_per_core},
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
    for (const SelectionRow& row : table_.rows())
      if (row.fits(collective, shape_) && row.algorithm->has(collective) &&
          fitsGroups(*row.algorithm, map_) && row.most_bytes >= bytes)
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
    if (shape_.groups == 1)
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

  const Config& config_;
  SelectionTable table_;
  std::string table_name_;
  const MachineModel& machine_;
  JobShape shape_;
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
  std::vector<int32_t> numbers;
  const char *at = text.data(), *const end = at + text.size();
  const bool is_grid = text.find('x') != std::string::npos;
  while (true) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc() || numbers.back() < 1) return {};
    if (next == end) break;
    if (*next != (is_grid ? 'x' : ',')) return {};
    at = next + 1;
  }
  if (is_grid ? numbers.size() != 2 || numbers[0] > kMaxModelNodes : numbers.size() < 2) return {};
  AskedJob job{is_grid ? std::vector<int32_t>(static_cast<size_t>(numbers[0]), numbers[1]) : numbers};
  const int64_t ranks = std::accumulate(job.ranks.begin(), job.ranks.end(), int64_t{0});
  const bool is_possible = job.ranks.size() <= size_t{kMaxModelNodes} &&
                           shapeOf(job).members <= kMaxModelRanksPerNode && ranks <= kMostPredictedRanks;
  return is_possible ? std::optional(std::move(job)) : std::nullopt;
}

Result<std::string> selectionExplained(const AskedJob& job) {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  HORING_TRY(checkForced(config));
  const bool is_known = readsMachine(config);
  MachineModel machine;
  if (is_known) {
    HORING_ASSIGN(machine, readMachine(config.calibrate));
  }
  machine.setNodes(job.ranks);
  std::string text =
      "# " + nodesText(job) + (job.shares_cores ? ", more ranks than cores\n" : ", a core for each\n");
  text += is_known ? "# times: predicted for the machine in " + config.calibrate + "\n"
                   : "# times: predicted for the machine that horing-sim assumes; HORING_CALIBRATE=FILE "
                     "names one that horing-tune measured\n";
  const Status links = checkLinksKnown(machine);
  if (!links.ok()) text += "# no times: " + links.message() + "\n";
  text += ratesComment(config, job);
  if (selectsByModel(config)) {
    HORING_ASSIGN(const std::string rows, modelTableText(config, machine, shapeOf(job)));
    HORING_ASSIGN(SelectionTable table, SelectionTable::parse(rows, "the model"));
    return text + Explanation(job, config, std::move(table), "the model's table", machine).text();
  }
  HORING_ASSIGN(TableInEffect in_effect, tableFor(config, job));
  return text + in_effect.comments +
         Explanation(job, config, std::move(in_effect.table), in_effect.name, machine).text();
}

}  // namespace horing::info
