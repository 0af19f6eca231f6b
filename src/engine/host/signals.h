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
  explicit Signals(int ranks) : of_rank_(static_cast<size_t>(ranks)) {}

  // `from` has signalled.
  void arrive(int from) { ++ofRank(from).here; }
  // `wait` waits for wait.signals signals of wait.peer.
  void post(const Transfer& wait) { ofRank(wait.peer).waiting.push_back(wait); }
  // The next wait for this rank that has all its signals, which it uses up.
  std::optional<Transfer> takeServed(int from);

  bool awaits(int from) const { return !of_rank_[static_cast<size_t>(from)].waiting.empty(); }
  // The ranks that waits name.
  std::vector<int32_t> waitsFor() const;
  // "1 of 3 signals from rank 2"; empty: nothing waits.
  std::string describe() const;

 private:
  struct OfRank {
    uint64_t here = 0;  // arrived, and not used up
    std::list<Transfer> waiting{};
  };
  OfRank& ofRank(int rank) { return of_rank_[static_cast<size_t>(rank)]; }

  std::vector<OfRank> of_rank_;
};

}  // namespace horing
