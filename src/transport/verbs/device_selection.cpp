#include "transport/verbs/device_selection.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace horing::verbs {

Result<DeviceSelection> DeviceSelection::parse(std::string_view text) {
  DeviceSelection selection;
  std::string_view rest = text;
  if (selection.except = rest.starts_with('^'); selection.except) rest.remove_prefix(1);
  if (selection.exact = rest.starts_with('='); selection.exact) rest.remove_prefix(1);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t colon = std::min(one.find(':'), one.size());
    Entry entry{.name = std::string(one.substr(0, colon)), .port = 0};
    const std::string_view port = one.substr(std::min(colon + 1, one.size()));
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), entry.port);
    const bool wrong_port = colon < one.size() && (error != std::errc() || end != port.data() + port.size() ||
                                                   entry.port < 1 || entry.port > 255);
    if (entry.name.empty() || wrong_port)
      return makeStatus(Code::kInvalidArgument,
                        "HORING_IB_HCA=%.*s: expected names of devices like mlx5_0,mlx5_1:2 (a port behind "
                        "the colon), with = "
                        "in front for whole names, or ^ for all except these",
                        static_cast<int>(text.size()), text.data());
    selection.entries.push_back(std::move(entry));
  }
  return selection;
}

bool DeviceSelection::chooses(std::string_view device, int port) const {
  const bool listed = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return (exact ? device == entry.name : device.starts_with(entry.name)) &&
           (entry.port == 0 || entry.port == port);
  });
  return entries.empty() || listed != except;
}

}  // namespace horing::verbs
