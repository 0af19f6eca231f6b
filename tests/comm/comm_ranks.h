#pragma once
// The ranks of a job as threads of the test, each with a communicator.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "control/root_service.h"

namespace horing {

inline void onEveryRank(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

inline std::unique_ptr<RootService> rootOfThisMachine() {
  return RootService::start({.reach = RootOptions::Reach::kThisMachine}).take();
}

// One communicator for each rank, with the defaults as modified by `change`; null, and a failed test, if that fails.
inline std::vector<std::unique_ptr<Communicator>> makeRanks(
    int ranks, const RootService& root, const std::function<void(CommunicatorOptions&)>& change) {
  std::vector<std::unique_ptr<Communicator>> all(static_cast<size_t>(ranks));
  onEveryRank(ranks, [&](int rank) {
    CommunicatorOptions options;
    options.config = Config::fromLookup([](const char*) { return nullptr; }).take();
    options.config.cache_dir = "off";  // nor measured while it starts
    options.id = root.id();
    options.rank = rank;
    options.ranks = ranks;
    change(options);
    auto made = Communicator::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().toString();
    if (made.ok()) all[static_cast<size_t>(rank)] = made.take();
  });
  return all;
}

}  // namespace horing
