#pragma once
// RDMA devices for tests, if there are any.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace horing::testing {

// Their names, in order.
inline std::vector<std::string> rdmaDevices() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// A rank whose words go over lo. Clock and key must outlive it.
inline Result<std::unique_ptr<Transport>> makeVerbsOverLoopback(
    int rank, const Key& key, const Clock& clock, const std::string& devices,
    int64_t outage_ms = VerbsOptions{}.outage_ms) {
  HORING_ASSIGN(
      auto control,
      makeSocketTransport(
          {.rank = rank, .key = key, .interfaces = "=lo", .clock = &clock, .log = Log(LogLevel::kNone)}));
  return makeVerbsTransport({.rank = rank,
                             .devices = devices,
                             .outage_ms = outage_ms,
                             .clock = &clock,
                             .log = Log(LogLevel::kNone)},
                            std::move(control));
}

}  // namespace horing::testing
