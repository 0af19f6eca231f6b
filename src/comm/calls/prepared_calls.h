#pragma once
// The prepared forms of earlier calls: programs repeat their calls.
#include <array>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/flight_recorder.h"
#include "comm/calls/arguments.h"
#include "comm/calls/planner.h"
#include "engine/host/call.h"
#include "selection/selection.h"

namespace horing {

// Everything that depends on a call's spec alone.
struct PreparedCall {
  CallSpec spec;
  BufferRules rules;
  // The algorithm that sends over links.
  const Selection* over_links = nullptr;
  Selection asked_for;  // `over_links` points to it if the call asks for its algorithm
  // The algorithms for buffers that all peers can access; empty: the ranks do not ask each other whether they can.
  std::span<const Selection> shared;
  // May begin before it is recorded, if `planned` is there and no peers are asked (Communicator::runOne).
  bool is_tiny = false;
  // The operation of `over_links`; null: no such call has run over links yet.
  PlannedOperation* planned = nullptr;
  // Complete except for the call's number and times.
  FlightRecord record;
};

// A bounded table. It saves time and changes nothing else, so ranks may hold different calls. One thread at a time.
class PreparedCalls {
 public:
  // Null: the call was not prepared, or is no longer kept. Calls whose blocks have tables are never kept.
  PreparedCall* find(const CallSpec& spec) const {
    if (spec.uneven) return nullptr;
    const Set& set = sets_[setOf(spec)];
    for (const auto& entry : set)
      if (entry && entry->spec == spec) return entry.get();
    return nullptr;
  }
  // A new entry, to be filled. Replaces an old one; valid until the next call of this or of clear().
  PreparedCall& add(const CallSpec& spec) {
    PreparedCall* place = &not_kept_;
    if (!spec.uneven) {
      auto& [newest, oldest] = sets_[setOf(spec)];
      std::swap(newest, oldest);
      if (!newest) newest.reset(new (std::nothrow) PreparedCall);
      if (newest) place = newest.get();
    }
    place->spec = spec;
    return *place;
  }
  void clear() { sets_ = {}; }

 private:
  static constexpr size_t kSets = 64;
  using Set = std::array<std::unique_ptr<PreparedCall>, 2>;

  static size_t setOf(const CallSpec& spec) {
    const uint64_t words = static_cast<uint64_t>(spec.collective) | static_cast<uint64_t>(spec.type) << 8 |
                           static_cast<uint64_t>(spec.op) << 16 | static_cast<uint64_t>(spec.root) << 24;
    return ((spec.count * 0x9e3779b97f4a7c15 ^ words) * 0x9e3779b97f4a7c15) >> 58;
  }
  static_assert(kSets == 1 << (64 - 58));

  std::array<Set, kSets> sets_;
  PreparedCall not_kept_;
};

}  // namespace horing
