#pragma once
// How long a thread of a kernel waits, and when it looks whether it is to end.
#include "engine/cuda/plan_image.h"

namespace horing::cuda {

// Of one wait. The abort flag is in memory of the host: on an H200 a look at it takes a microsecond, those of all blocks come one
// after the other, and the fences of blocks that have something to do wait for them (132 blocks: 69 us each). So it is the clock
// that says when to look. What a kernel of this rank has claimed is near, and ends those that come behind it at once.
class Patience {
 public:
  static constexpr uint32_t kLooks = 64;              // at what is waited for, between two at the clock
  static constexpr uint64_t kBetweenNs = 10'000'000;  // two looks at the abort flag
  static constexpr uint64_t kLaterNs = 200'000'000;   // so that others say before why they waited in vain

  // Why to give up; kNone: go on. `later_ns`: before that neither the abort flag nor the timeout counts.
  HORING_DEVICE Failure::Kind look(uint64_t now_ns, const uint32_t* abort, const uint32_t* claimed,
                                   uint64_t timeout_ns, uint64_t later_ns = 0) {
    if (loadFlag(claimed)) return Failure::Kind::kAborted;
    if (begun_ns_ == 0) begun_ns_ = looked_ns_ = now_ns + later_ns;
    if (now_ns < looked_ns_) return Failure::Kind::kNone;
    const bool is_overdue = now_ns - begun_ns_ > timeout_ns;
    if (!is_overdue && now_ns - looked_ns_ < kBetweenNs) return Failure::Kind::kNone;
    looked_ns_ = now_ns;
    if (loadFlag(abort)) return Failure::Kind::kAborted;
    return is_overdue ? Failure::Kind::kOverdue : Failure::Kind::kNone;
  }

 private:
  uint64_t begun_ns_ = 0;  // 0: not looked yet
  uint64_t looked_ns_ = 0;
};

}  // namespace horing::cuda
