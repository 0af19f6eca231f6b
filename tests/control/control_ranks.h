#pragma once
// Ranks as threads that join one rendezvous.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../sanitizer.h"
#include "base/clock.h"
#include "control/control.h"
#include "control/root_service.h"

namespace horing::testing_comm {

using horing::test::kShortDeadlineMs;
inline const SteadyClock kClock;

inline std::unique_ptr<RootService> startRoot(std::optional<int64_t> idle_timeout_ms = 60'000,
                                              int64_t proof_timeout_ms = 60'000, uint16_t port = 0) {
  RootOptions options;
  options.port = port;
  options.host = "127.0.0.1";
  options.idle_timeout_ms = idle_timeout_ms;
  options.proof_timeout_ms = proof_timeout_ms;
  options.log = Log(LogLevel::kNone);
  Result<std::unique_ptr<RootService>> root = RootService::start(options);
  EXPECT_TRUE(root.ok()) << root.status().toString();
  return root.ok() ? root.take() : nullptr;
}

inline JoinOptions joinOptions(const UniqueId& id, int rank, int ranks, int64_t timeout_ms = 30'000) {
  JoinOptions options;
  options.id = id;
  options.rank = rank;
  options.ranks = ranks;
  options.timeout_ms = timeout_ms;
  options.clock = &kClock;
  options.log = Log(LogLevel::kNone);
  return options;
}

inline Deadline in(int64_t timeout_ms) {
  return Deadline::after(kClock, timeout_ms);
}

// Runs body(i) for 0 <= i < count, each in its own thread.
inline void inThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Joins all ranks of a communicator; every entry is a Control unless a failure was reported.
inline std::vector<std::unique_ptr<Control>> joinAll(const UniqueId& id, int ranks,
                                                     int64_t heartbeat_ms = 0) {
  std::vector<std::unique_ptr<Control>> controls(static_cast<size_t>(ranks));
  inThreads(ranks, [&](int rank) {
    JoinOptions options = joinOptions(id, rank, ranks);
    options.heartbeat_ms = heartbeat_ms;
    Result<std::unique_ptr<Control>> joined = Control::join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().toString();
    if (joined.ok()) controls[static_cast<size_t>(rank)] = joined.take();
  });
  return controls;
}

// What joining gave, for tests in which it fails.
inline std::vector<Status> joinStatuses(const std::vector<JoinOptions>& options) {
  std::vector<Status> statuses(options.size());
  inThreads(static_cast<int>(options.size()), [&](int i) {
    const auto at = static_cast<size_t>(i);
    statuses[at] = Control::join(options[at]).status();
  });
  return statuses;
}

// Waits until there is an error; ok() when the rendezvous closed or none came within 20 s.
Status waitForError(Control& control);

inline bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

}  // namespace horing::testing_comm
