#pragma once
// Which RDMA devices and ports a rank may use, by name.
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace horing::verbs {

// HORING_IB_HCA, parsed. A list of prefixes of device names, each optionally with ":port"; a leading '=': full names; a leading '^':
// exclude these.
struct DeviceSelection {
  struct Entry {
    std::string name;
    int port = 0;  // 0: any
  };
  std::vector<Entry> entries;  // empty: all
  bool exact = false;
  bool except = false;

  static Result<DeviceSelection> parse(std::string_view text);
  bool chooses(std::string_view device, int port) const;
};

}  // namespace horing::verbs
