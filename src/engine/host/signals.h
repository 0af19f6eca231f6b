#pragma once
// Signals that have arrived, counted for each rank and index, and the waits for them.
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/host/transfer.h"

namespace horing {

// One thread at a time. Waits for one rank's signals of one index get them in the order of the calls.
class Signals {
 public:
  // `indices`: how many there are; from 0.
  Signals(int ranks, int indices) : indices_(indices), of_rank_(static_cast<size_t>(ranks)) {}

  // What other ranks name may not be there.
  bool has(uint64_t index) const { return index < static_cast<uint64_t>(indices_); }
  // `from` has signalled.
  void arrive(int from, uint32_t index) { ++ofRank(from)[index].here; }
  // `wait`: a SignalWait.
  void post(const Transfer& wait) { ofRank(wait.peer)[waitOf(wait).signal].waiting.push_back(wait); }
  // The next wait for these signals that has all of them, which it uses up.
  std::optional<Transfer> takeServed(int from, uint32_t index);

  // The waits that are not served, to be recorded.
  template <typename Visit>
  void forEachWait(const Visit& visit) {
    for (OfRank& of_rank : of_rank_)
      for (auto& [index, counted] : of_rank)
        for (Transfer& wait : counted.waiting) visit(wait);
  }

  bool awaits(int from) const;
  // The ranks that waits name.
  std::vector<int32_t> waitsFor() const;
  // "1 of 3 signals from rank 2"; empty: nothing waits.
  std::string describe() const;

 private:
  struct Counted {
    uint64_t here = 0;  // arrived, and not used up
    std::list<Transfer> waiting{};
  };
  using OfRank = std::map<uint32_t, Counted>;  // by index
  static const Transfer::SignalWait& waitOf(const Transfer& wait) {
    return std::get<Transfer::SignalWait>(wait.kind);
  }
  OfRank& ofRank(int rank) { return of_rank_[static_cast<size_t>(rank)]; }

  int indices_;
  std::vector<OfRank> of_rank_;
};

}  // namespace horing
