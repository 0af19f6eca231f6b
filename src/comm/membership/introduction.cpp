#include "comm/membership/introduction.h"

#include <algorithm>
#include <set>

#include "base/cache_folder.h"
#include "selection/kept_table.h"
#include "selection/model_selection.h"
#include "transport/transport.h"

namespace horing {

namespace {

constexpr size_t kMaxSettingsBytes = 1024;
constexpr size_t kMaxTransports = 16;

std::string_view takeWord(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

// The settings of one rank that differ from another rank's, for a message.
std::string settingsNotIn(std::string_view settings, std::string_view others) {
  std::set<std::string_view> known;
  while (!others.empty()) known.insert(takeWord(others));
  std::string text;
  while (!settings.empty())
    if (const std::string_view word = takeWord(settings); !known.contains(word))
      text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

void addSetting(std::string& numbers, std::string&, const char* name, int64_t value) {
  numbers += formatString(" %s=%lld", name, static_cast<long long>(value));
}
void addSetting(std::string&, std::string& texts, const char* name, const std::string& value) {
  texts += formatString(" %s=%s", name, value.c_str());
}

// Whether the machine is measured, read by rank 0 from its file, or neither: the same on all ranks.
const char* calibrationKind(const Config& config) {
  return readsMachine(config) ? "(a file)" : config.calibrate.c_str();
}

// Whether to ask rank 0 for cached tables.
bool hasKeptTables(const Config& config) {
  return config.selection == kSelectionAuto && !selectsByModel(config) &&
         !KeptTables(cacheFolder(config.cache_dir)).paths().empty();
}

// Whether to measure if nothing is cached. Not needed where the algorithm is forced.
bool measuresOnce(const CommunicatorOptions& options) {
  const Config& config = options.config;
  return config.selection == kSelectionAuto && config.calibrate == kCalibrateOnce &&
         (!options.is_child || options.machine) && config.algorithm == kSelectionAuto &&
         !config.reproducible &&
         (config.cache_dir.empty() || KeptTables(cacheFolder(config.cache_dir)).canKeep());
}

}  // namespace

std::string settingsText(const CommunicatorOptions& options, uint64_t table_digest) {
  Config config = options.config;
  // Ranks must agree on what these two lead to, not on where that is kept.
  const bool is_chosen = config.selection == kSelectionAuto || config.selection == kSelectionByModel;
  config.selection = formatString("%s(%016llx)", is_chosen ? config.selection.c_str() : "",
                                  static_cast<unsigned long long>(table_digest));
  config.calibrate = calibrationKind(options.config);
  std::string numbers = formatString("config.numRmaSig=%d", options.signals), texts;
#define X(member, kind, sharing, fallback, allowed, name, help) \
  if (Sharing::k##sharing == Sharing::kShared) addSetting(numbers, texts, name, config.member);
  HORING_CONFIG(X)
  HORING_TEST_CONFIG(X)
#undef X
  // Numbers first, since a text that is too long loses its end.
  return numbers + texts;
}

Placement::First firstOf(const CommunicatorOptions& options) {
  if (options.rank != 0) return {};
  return {hasKeptTables(options.config), measuresOnce(options)};
}

void fields(auto& wire, Is<Introduction> auto& introduction) {
  auto& [settings, first, identity, fragment, bootstrap_id, addresses] = introduction;
  auto& [keeps_tables, measures] = first;
  wire.text(settings, kMaxSettingsBytes);
  wire.numbers(keeps_tables, measures);
  fields(wire, identity);
  fields(wire, fragment);
  wire.optional(bootstrap_id, [&](auto& id) { wire.raw(id.bytes); });
  wire.list(addresses, kMaxTransports, [&](auto& address) { wire.blob(address, kMaxAddressBytes); });
}
template void fields(FieldWriter&, const Introduction&);
template void fields(FieldReader&, Introduction&);

Result<std::vector<Introduction>> decodeIntroductions(const std::vector<std::vector<std::byte>>& told,
                                                      int reader) {
  std::vector<Introduction> all;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    if (!decodeFields(told[rank], all.emplace_back()))
      return makeStatus(Code::kRemoteError, "rank %d received a malformed introduction from rank %zu", reader,
                        rank);
  }
  const std::string& settings = all[static_cast<size_t>(reader)].settings;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const std::string& theirs = all[rank].settings; theirs != settings)
      return makeStatus(
          Code::kInvalidUsage, "ranks run with different settings: rank %d has %s, rank %zu has %s", reader,
          settingsNotIn(settings, theirs).c_str(), rank, settingsNotIn(theirs, settings).c_str());
  return all;
}

}  // namespace horing
