#include "base/config.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

extern char** environ;

namespace horing {

namespace {

// HORING_ names that other programs of the project own.
constexpr const char* kForeignPrefixes[] = {"HORING_TESTS_", "HORING_RUN_", "HORING_BENCH_"};

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

Status parseInt(const ConfigVariable& v, const char* value, int64_t& out) {
  char* end = nullptr;
  const long long low = std::strtoll(v.allowed, &end, 10);
  const long long high = std::strtoll(end + 2, nullptr, 10);
  errno = 0;
  const long long parsed = std::strtoll(value, &end, 10);
  if (errno != 0 || end == value || *end != '\0' || parsed < low || parsed > high) return badValue(v, value);
  out = parsed;
  return {};
}

Status parseFlag(const ConfigVariable& v, const char* value, bool& out) {
  if (std::strcmp(value, "0") != 0 && std::strcmp(value, "1") != 0) return badValue(v, value);
  out = value[0] == '1';
  return {};
}

Status rejectUnknownNames() {
  std::set<std::string_view> known;
  for (const ConfigVariable& v : configVariables()) known.insert(v.name);
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("HORING_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    bool foreign = known.contains(name);
    for (const char* prefix : kForeignPrefixes) foreign = foreign || name.starts_with(prefix);
    if (!foreign)
      return makeStatus(Code::kInvalidArgument,
                        "environment variable %.*s is not one of horing's: see `horing-info` for all of them",
                        static_cast<int>(name.size()), name.data());
  }
  return {};
}

}  // namespace

const std::vector<ConfigVariable>& configVariables() {
  static const std::vector<ConfigVariable> kVariables = {
#define X(member, kind, fallback, allowed, name, help) {name, #kind, fallback, allowed, help},
      HORING_CONFIG(X)
#undef X
  };
  return kVariables;
}

Result<Config> Config::fromLookup(const Lookup& lookup) {
  Config config;
  size_t index = 0;
#define X(member, kind, default_text, allowed_text, name_text, help_text)                         \
  {                                                                                               \
    const ConfigVariable& variable = configVariables()[index++];                                  \
    const char* value = lookup(variable.name);                                                    \
    HORING_TRY(parse##kind(variable, value&&* value ? value : variable.fallback, config.member)); \
  }
  HORING_CONFIG(X)
#undef X
  for (const auto& [name, slots] :
       {std::pair{"HORING_SLOTS", config.slots}, std::pair{"HORING_SOCKET_SLOTS", config.socket_slots}})
    if (slots <= config.window)
      return makeStatus(Code::kInvalidArgument,
                        "%s=%lld must exceed HORING_WINDOW=%lld: with fewer, rings of three ranks deadlock",
                        name, static_cast<long long>(slots), static_cast<long long>(config.window));
  return config;
}

Result<Config> Config::fromEnvironment() {
  HORING_TRY(rejectUnknownNames());
  return fromLookup([](const char* name) -> const char* { return std::getenv(name); });
}

LogLevel Config::logLevel() const {
  if (debug == "none") return LogLevel::kNone;
  if (debug == "info") return LogLevel::kInfo;
  return debug == "trace" ? LogLevel::kTrace : LogLevel::kWarn;
}

}  // namespace horing
