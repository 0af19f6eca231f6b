#include "base/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/word.h"

extern char** environ;

namespace horing {

namespace {

constexpr std::string_view kPrefix = "HORING_";
// Prefixes of variables that belong to the project's programs and its Python package.
constexpr const char* kForeignPrefixes[] = {"HORING_TESTS_", "HORING_RUN_", "HORING_NCCL_", "HORING_LIBRARY",
                                            "HORING_PREBUILT"};

// The values of setDefault(). Never destroyed: calls may come during exit.
struct Defaults {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;  // by name; under mutex
};
Defaults& defaults() {
  static auto* const kept = new Defaults;
  return *kept;
}

Status badValue(const ConfigVariable& v, const char* value) {
  return makeStatus(Code::kInvalidArgument, "environment variable %s=%s: expected %s%s (default %s). %s",
                    v.name, value, std::strcmp(v.kind, "Int") == 0 ? "an integer in " : "one of ", v.allowed,
                    v.fallback, v.help);
}

Status parseText(const ConfigVariable&, const char* value, std::string& out) {
  out = value;
  return {};
}

Status parseChoice(const ConfigVariable& v, const char* value, std::string& out) {
  std::string_view rest = v.allowed;
  while (!rest.empty()) {
    const size_t bar = rest.find('|');
    if (rest.substr(0, bar) == value) {
      out = value;
      return {};
    }
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return badValue(v, value);
}

// Parses "low..high" or "0|1".
IntRange rangeOf(const ConfigVariable& v) {
  char* end = nullptr;
  const int64_t least = std::strtoll(v.allowed, &end, 10);
  return {least, std::strtoll(end + std::strspn(end, ".|"), nullptr, 10)};
}

Status parseInt(const ConfigVariable& v, const char* value, int64_t& out) {
  const auto [least, most] = rangeOf(v);
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(value, &end, 10);
  if (errno != 0 || end == value || *end != '\0' || parsed < least || parsed > most)
    return badValue(v, value);
  out = parsed;
  return {};
}

Status parseFlag(const ConfigVariable& v, const char* value, bool& out) {
  if (std::strcmp(value, "0") != 0 && std::strcmp(value, "1") != 0) return badValue(v, value);
  out = value[0] == '1';
  return {};
}

// The Levenshtein distance.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // of the prefix of `a` so far to each prefix of `b`
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

bool isKnown(std::string_view name) {
  for (const char* prefix : kForeignPrefixes)
    if (name.starts_with(prefix)) return true;
  const auto& known = configVariables();
  return std::any_of(known.begin(), known.end(), [&](const ConfigVariable& v) { return name == v.name; });
}

// The known name within an edit distance of two, or of a third of the length, or with one name a prefix of the other; nullptr: none.
const char* nearestName(std::string_view name) {
  const std::string_view own = name.substr(kPrefix.size());
  const char* nearest = nullptr;
  size_t least = std::max<size_t>(own.size() / 3, 2) + 1;
  for (const ConfigVariable& v : configVariables()) {
    if (v.for_tests) continue;
    const std::string_view known = std::string_view(v.name).substr(kPrefix.size());
    const bool one_begins_the_other = own.size() > 2 && (known.starts_with(own) || own.starts_with(known));
    const size_t distance = one_begins_the_other ? 1 : editDistance(own, known);
    if (distance < least) nearest = v.name, least = distance;
  }
  return nearest;
}

}  // namespace

const std::vector<ConfigVariable>& configVariables() {
  // Never destroyed: calls may come during exit.
  static const auto* const variables = new std::vector<ConfigVariable>{
#define X(member, kind, sharing, fallback, allowed, name, help) \
  {name, #kind, Sharing::k##sharing, fallback, allowed, help, false},
      HORING_CONFIG(X)
#undef X
#define X(member, kind, sharing, fallback, allowed, name, help) \
  {name, #kind, Sharing::k##sharing, fallback, allowed, help, true},
          HORING_TEST_CONFIG(X)
#undef X
  };
  return *variables;
}

IntRange rangeOf(std::string_view name) {
  const auto& all = configVariables();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ConfigVariable& v) { return name == v.name; });
  HORING_CHECK(found != all.end());
  return rangeOf(*found);
}

namespace {

// For scripts that renamed their NCCL_ variables: NCCL's spelling of a Choice, and horing's.
struct Spelling {
  const char* variable;
  const char* nccl;
  const char* own;
};
constexpr Spelling kSpellings[] = {
    {"HORING_DEBUG", "NONE", "none"},
    {"HORING_DEBUG", "VERSION", "warn"},
    {"HORING_DEBUG", "ABORT", "warn"},
    {"HORING_DEBUG", "WARN", "warn"},
    {"HORING_DEBUG", "INFO", "info"},
    {"HORING_DEBUG", "TRACE", "trace"},
    {"HORING_SOCKET_FAMILY", "AF_INET", "ipv4"},
    {"HORING_SOCKET_FAMILY", "AF_INET6", "ipv6"},
};

const char* inOwnSpelling(const ConfigVariable& v, const char* value) {
  for (const Spelling& one : kSpellings)
    if (std::strcmp(v.name, one.variable) == 0 && isSameWord(value, one.nccl)) return one.own;
  return value;
}

// A process makes several logs of one configuration.
bool isSaidFirst(const std::string& error) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;  // never destroyed, as the files of logs
  const std::lock_guard lock(mutex);
  return said->insert(error).second;
}

}  // namespace

Result<Config> Config::fromLookup(const Lookup& lookup) {
  Config config;
  size_t index = 0;
#define X(member, kind, sharing, default_text, allowed_text, name_text, help_text)                \
  {                                                                                               \
    const ConfigVariable& variable = configVariables()[index++];                                  \
    const char* value = lookup(variable.name);                                                    \
    const char* const own = value && *value ? inOwnSpelling(variable, value) : variable.fallback; \
    HORING_TRY(parse##kind(variable, own, config.member));                                        \
  }
  HORING_CONFIG(X)
  HORING_TEST_CONFIG(X)
#undef X
  for (const auto& [name, slots] : {std::pair{"HORING_TESTS_SLOTS", config.slots},
                                    std::pair{"HORING_TESTS_SOCKET_SLOTS", config.socket_slots}})
    if (slots <= config.window)
      return makeStatus(
          Code::kInvalidArgument,
          "%s=%lld must exceed HORING_TESTS_WINDOW=%lld: with fewer, rings of three ranks deadlock", name,
          static_cast<long long>(slots), static_cast<long long>(config.window));
  return config;
}

Result<Config> Config::fromEnvironment() {
  Defaults& kept = defaults();
  std::lock_guard lock(kept.mutex);
  return fromLookup([&](const char* name) -> const char* {
    if (const char* const value = std::getenv(name); value && *value) return value;
    const auto found = kept.values.find(name);
    return found == kept.values.end() ? nullptr : found->second.c_str();
  });
}

Status setDefault(std::string_view name, const char* value) {
  const auto& known = configVariables();
  if (std::none_of(known.begin(), known.end(), [&](const ConfigVariable& v) { return name == v.name; }))
    return makeStatus(Code::kInvalidArgument, "'%.*s' is no variable of horing: `horing-info` lists all",
                      static_cast<int>(name.size()), name.data());
  Defaults& kept = defaults();
  std::lock_guard lock(kept.mutex);
  if (value) {
    kept.values.insert_or_assign(std::string(name), value);
  } else if (const auto found = kept.values.find(name); found != kept.values.end()) {
    kept.values.erase(found);
  }
  return {};
}

std::vector<std::string> unknownVariables() {
  std::vector<std::string> sentences;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kPrefix)) continue;
    const std::string name(text.substr(0, text.find('=')));
    if (isKnown(name)) continue;
    const char* nearest = nearestName(name);
    sentences.push_back(
        "environment variable " + name + " is not one of horing's and changes nothing: " +
        (nearest ? formatString("did you mean %s?", nearest) : "`horing-info` lists all that are"));
  }
  return sentences;
}

LogLevel Config::logLevel() const {
  if (debug == "none") return LogLevel::kNone;
  if (debug == "info") return LogLevel::kInfo;
  return debug == "trace" ? LogLevel::kTrace : LogLevel::kWarn;
}

Log Config::log(int rank) const {
  LogTarget target{.nccl_form = debug_form == "nccl"};
  const Result<int> file = openLogFile(debug_file);
  if (file.ok()) target.descriptor = file.value();
  const Log made(logLevel(), rank, target);
  if (!file.ok() && made.enabled(LogLevel::kWarn) && isSaidFirst(file.status().message()))
    made.warn("config", "%s", file.status().message().c_str());
  return made;
}

}  // namespace horing
