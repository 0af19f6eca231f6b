#pragma once
// NCCL's environment variables and their meaning in horing: a table.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horing::nccl {

// The value of an NCCL variable by its full name; nothing: not set, or empty.
using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

// The NCCL variables that determine one of horing's.
struct Mapping {
  const char* own;                // HORING_...
  std::vector<const char*> from;  // NCCL_..., one or several
  enum class Kind { kSame, kTranslated } kind;
  // Nothing: `own` keeps its default.
  std::optional<std::string> (*value)(const Lookup& lookup, std::span<const char* const> from);
};
std::span<const Mapping> mappings();

// Variables without effect, since horing has no such feature or chooses otherwise.
struct Accepted {
  const char* name;  // a trailing * matches any suffix
  const char* why;
};
std::span<const Accepted> acceptedVariables();
// Variables about calls, such as NCCL_COMM_BLOCKING.
std::span<const char* const> ownVariables();

// A value and its source.
struct Found {
  std::string value;
  std::string where;  // "environment", or a file
};
// The environment, then NCCL_CONF_FILE or else ~/.nccl.conf, then /etc/nccl.conf. The files are read once in a process.
std::optional<Found> find(std::string_view name);
std::optional<std::string> findValue(std::string_view name);

// The effect of a variable that is set: "HORING_IB_TC=41", "changes nothing: ...".
std::string fateOf(std::string_view name);

// Every NCCL_ name that is set, in the environment or in a file.
std::vector<std::string> namesThatAreSet();

}  // namespace horing::nccl
