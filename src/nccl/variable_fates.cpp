// The effect of a variable that is set.
#include <algorithm>
#include <cstdlib>

#include "nccl/variables.h"

namespace horing::nccl {

namespace {

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

std::string fateOf(const Mapping& mapping) {
  const std::optional<std::string> value = mapping.value(findValue, mapping.from);
  if (!value) return std::string("changes nothing with this value, as ") + mapping.own + " is by default";
  const char* const own = std::getenv(mapping.own);
  return own && *own ? std::string(mapping.own) + "=" + own + ", which is set, counts instead"
                     : std::string(mapping.own) + "=" + *value;
}

}  // namespace

std::string fateOf(std::string_view name) {
  for (const Mapping& mapping : mappings())
    for (const char* const from : mapping.from)
      if (name == from) return fateOf(mapping);
  for (const char* const own : ownVariables())
    if (name == own) return "as in NCCL";
  for (const Accepted& accepted : acceptedVariables())
    if (matches(name, accepted.name)) return std::string("changes nothing: ") + accepted.why;
  return "changes nothing: horing does not know it";
}

}  // namespace horing::nccl
