#pragma once
// Runs several ranks of one process, which wait for each other, on a thread each.
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "base/no_memory.h"
#include "base/status.h"

namespace horing {

// Runs body(0) ... body(count - 1), each on its own thread. Either all run or none.
template <typename Body>
Status onThreads(int count, Body body) {
  std::promise<bool> start;
  const std::shared_future<bool> started = start.get_future().share();
  std::vector<std::thread> threads;
  Status status;
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&body, started, i] {
        try {
          if (started.get()) body(i);
        } catch (...) {  // no memory: body(i) has no result, which the caller sees
        }
      });
  } catch (const std::system_error& error) {
    status =
        makeStatus(Code::kSystemError,
                   "only %zu of %d threads could be started (ulimit -u, or a limit of the container): %s",
                   threads.size(), count, error.what());
  } catch (...) {
    status = noMemory();
  }
  start.set_value(status.ok());
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace horing
