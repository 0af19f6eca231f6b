#pragma once
// What the last call of each collective found out, for those that repeat it: programs make the same small calls over and over.
#include <array>
#include <atomic>
#include <cstddef>

#include "base/types.h"
#include "comm/arguments.h"
#include "comm/planner.h"

namespace horing {

// A call whose blocks all have one size, in the order of the ranks.
struct PlainCall {
  Collective collective = Collective::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  int root = 0;
};

// One thread at a time, but for mayHave().
class PreparedCalls {
 public:
  // Any thread: false where find() would return null.
  bool mayHave(const PlainCall& call) const {
    return call.count != 0 && of(call.collective).count.load(std::memory_order_relaxed) == call.count;
  }
  // What carries out a call that differs from the one that was kept in its buffers at most, and they are as they should be; else null.
  PlannedOperation* find(const PlainCall& call) const {
    const Entry& entry = of(call.collective);
    const bool fits = mayHave(call) && call.type == entry.type && call.op == entry.op &&
                      call.root == entry.root && entry.rules.allow(call.input, call.output) &&
                      entry.planned->operation->repeats(call.count, call.type, call.op);
    return fits ? entry.planned : nullptr;
  }
  void keep(Collective collective, const Call& call, const Caller& caller, PlannedOperation& planned) {
    Entry& entry = of(collective);
    entry.planned = &planned;
    entry.type = call.type;
    entry.op = call.op;
    entry.root = call.root;
    const Status found = findBufferRules(collective, call, caller, entry.rules);
    entry.count.store(found.ok() ? call.count : 0, std::memory_order_relaxed);
  }
  void forget(Collective collective) { of(collective).count.store(0, std::memory_order_relaxed); }

 private:
  struct Entry {
    std::atomic<size_t> count{0};  // 0: there is none
    PlannedOperation* planned = nullptr;
    BufferRules rules;
    DataType type = DataType::kFloat32;
    RedOp op = RedOp::kSum;
    int root = 0;
  };
  Entry& of(Collective collective) { return entries_[static_cast<size_t>(collective)]; }
  const Entry& of(Collective collective) const { return entries_[static_cast<size_t>(collective)]; }

  std::array<Entry, kCollectives> entries_;
};

}  // namespace horing
