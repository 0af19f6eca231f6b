#include "paro/names.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace horing::paro {

namespace {

// The bytes of the UTF-8 character with which the text begins; 0 if it is none. No other form than the shortest, no surrogates.
size_t characterAt(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xc2 ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                       : first < 0xf5 ? 4
                                      : 0;
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool is_wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                        (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
  return is_wrong ? 0 : bytes;
}

Status checkUtf8(size_t param, std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t bytes = characterAt(name.substr(at));
    if (bytes == 0)
      return makeStatus(Code::kInvalidArgument, "the name of parameter %zu is not UTF-8 from byte %zu on",
                        param, at);
    at += bytes;
  }
  return {};
}

Status checkName(size_t param, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes)
    return makeStatus(Code::kInvalidArgument, "the name of parameter %zu has %zu bytes: expected 1 to %zu",
                      param, name.size(), kMaxNameBytes);
  const auto is_control = [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; };
  if (std::ranges::any_of(name, is_control))
    return makeStatus(Code::kInvalidArgument, "the name of parameter %zu has a control character", param);
  return checkUtf8(param, name);
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
