#include "paro/names.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace horing::paro {

namespace {

Status checkName(size_t param, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes)
    return makeStatus(Code::kInvalidArgument, "the name of parameter %zu has %zu bytes: expected 1 to %zu",
                      param, name.size(), kMaxNameBytes);
  const auto is_control = [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; };
  if (std::ranges::none_of(name, is_control)) return {};
  return makeStatus(Code::kInvalidArgument, "the name of parameter %zu has a control character", param);
}

}  // namespace

Status checkNames(const Names& names) {
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < names.size(); ++i) {
    HORING_TRY(checkName(i, names[i]));
    const auto [first, is_new] = numbers.try_emplace(names[i], i);
    if (!is_new)
      return makeStatus(Code::kInvalidArgument,
                        "parameters %zu and %zu have the same name, %s: expected a name for each",
                        first->second, i, names[i].c_str());
  }
  return {};
}

Result<Names> readNames(const char* const* given, size_t count) {
  Names names;
  if (!given) return names;
  for (size_t i = 0; i < count; ++i) {
    if (!given[i])
      return makeStatus(Code::kInvalidArgument,
                        "config.names[%zu] is NULL: expected a name for each parameter", i);
    names.emplace_back(given[i]);
  }
  HORING_TRY(checkNames(names));
  return names;
}

std::string labelOf(const Names& names, size_t param) {
  return param < names.size() ? formatString("parameter %zu (%s)", param, names[param].c_str())
                              : formatString("parameter %zu", param);
}

}  // namespace horing::paro
