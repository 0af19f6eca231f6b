// The sources of NCCL's variables.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "nccl/variables.h"

extern char** environ;

namespace horing::nccl {

namespace {

constexpr std::string_view kPrefix = "NCCL_";
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const size_t end = text.find_last_not_of(kBlanks) + 1;
  return text.substr(begin, begin < end ? end - begin : 0);
}

using Values = std::map<std::string, Found, std::less<>>;

// Lines NAME=VALUE; # begins a comment. Existing values are kept.
void addFile(const std::string& path, Values& values) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kPrefix)) continue;
    values.try_emplace(std::string(trimmed(text.substr(0, equals))),
                       Found{std::string(trimmed(text.substr(equals + 1))), path});
  }
}

const Values& ofFiles() {
  static const auto* const kept = [] {
    auto* const values = new Values;  // never destroyed: calls may come during exit
    if (const char* const file = std::getenv("NCCL_CONF_FILE")) {
      addFile(file, *values);
    } else if (const char* const home = std::getenv("HOME")) {
      addFile(std::string(home) + "/.nccl.conf", *values);
    }
    addFile("/etc/nccl.conf", *values);
    return values;
  }();
  return *kept;
}

}  // namespace

std::optional<Found> find(std::string_view name) {
  if (const char* const value = std::getenv(std::string(name).c_str()); value && *value)
    return Found{value, "environment"};
  const auto found = ofFiles().find(name);
  if (found == ofFiles().end() || found->second.value.empty()) return {};
  return found->second;
}

std::optional<std::string> findValue(std::string_view name) {
  const std::optional<Found> found = find(name);
  return found ? std::optional(found->value) : std::nullopt;
}

std::vector<std::string> namesThatAreSet() {
  std::map<std::string, bool> names;
  for (const auto& [name, found] : ofFiles()) names[name] = true;
  for (char** entry = environ; entry && *entry; ++entry)
    if (const std::string_view text = *entry; text.starts_with(kPrefix))
      names[std::string(text.substr(0, text.find('=')))] = true;
  std::vector<std::string> sorted;
  for (const auto& [name, there] : names) sorted.push_back(name);
  return sorted;
}

}  // namespace horing::nccl
