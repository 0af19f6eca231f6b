#include "horing_run/leftovers.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/config.h"
#include "transport/shm/shm_transport.h"

namespace horing::run {

namespace {
// In containers without an init process that reaps, process groups never become empty.
constexpr int64_t kVanishMs = 2000;
constexpr int kPauseMs = 2;
}  // namespace

void removeLeftovers(std::span<const pid_t> groups) {
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kVanishMs);
  const auto lives = [](pid_t group) { return kill(-group, 0) == 0; };
  while (std::any_of(groups.begin(), groups.end(), lives) && !deadline.passed()) ::poll(nullptr, 0, kPauseMs);
  const Result<Config> config = Config::fromLookup([](const char* name) { return std::getenv(name); });
  // With an invalid variable, no rank has made a file.
  if (config.ok()) removeShmLeftovers(config.value().shm_dir);
}

}  // namespace horing::run
