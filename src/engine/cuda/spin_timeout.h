#pragma once
// How long a thread of a kernel waits, and when it polls the abort flag.
#include "engine/cuda/plan_image.h"

namespace horing::cuda {

// For one wait. The abort flag is in host memory: on an H200 a read takes a microsecond, the reads of all blocks are serialised, and fences
// of busy blocks wait for them (132 blocks: 69 us each). So the clock decides when to read it. The claim of a failed kernel of this rank is
// in GPU memory and ends later kernels at once.
class SpinTimeout {
 public:
  static constexpr uint32_t kLooks = 64;              // polls between two readings of the clock
  static constexpr uint64_t kBetweenNs = 10'000'000;  // between two reads of the abort flag
  static constexpr uint64_t kLaterNs = 200'000'000;  // so that blocks with a more precise reason report first

  // The reason to give up; kNone: continue. `later_ns`: how long to ignore the abort flag and the timeout.
  HORING_DEVICE Failure::Kind check(uint64_t now_ns, const uint32_t* abort, const uint32_t* claimed,
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
  uint64_t begun_ns_ = 0;  // 0: not started
  uint64_t looked_ns_ = 0;
};

}  // namespace horing::cuda
