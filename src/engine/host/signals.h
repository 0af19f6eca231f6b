#pragma once
// Signals that have arrived, counted for each rank, and the waits for them.
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/host/transfer.h"

namespace horing {

// One thread at a time. Waits for one rank's signals get them in the order of the calls.
class Signals {
 public:
  explicit Signals(int ranks) : here_(static_cast<size_t>(ranks)) {}

  // `from` has signalled.
  void arrive(int from) { ++here_[static_cast<size_t>(from)]; }
  // `wait` waits for wait.signals signals of wait.peer.
  void post(const Transfer& wait) { waiting_.push_back(wait); }
  // The next wait for this rank that has all its signals, which it uses up.
  std::optional<Transfer> takeServed(int from);

  bool awaits(int from) const;
  bool awaitsAny() const { return !waiting_.empty(); }
  // The ranks that waits name, each once.
  std::vector<int32_t> waitsFor() const;
  // "1 of 3 signals from rank 2"; empty: nothing waits.
  std::string describe() const;

 private:
  std::vector<uint64_t> here_;  // by rank: arrived, and not used up
  std::list<Transfer> waiting_;
};

}  // namespace horing
