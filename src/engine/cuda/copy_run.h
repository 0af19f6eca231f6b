#pragma once
// Serves the host's copy requests (engine/cuda/copy_call.h) in order; each block copies its share.
//
// One thread polls, since each poll crosses PCIe; all threads copy.
//
// Block: as in lane.h, with CopyShared, and nap() between two polls.
#include <algorithm>

#include "base/quotient.h"
#include "engine/cuda/copy_call.h"
#include "engine/cuda/fold_body.h"

namespace horing::cuda {

// What the polling thread tells the other threads of its block.
struct CopyShared {
  CopyRequest share;
  bool is_over;
};

template <class Block>
class CopyRun {
 public:
  HORING_DEVICE CopyRun(const CopyCall& call, int32_t number, Block& block)
      : call_(call),
        number_(number),
        done_(call.done[number].value),
        block_(block),
        shared_(block.shared()) {}

  HORING_DEVICE void run() {
    const bool looks = block_.thread() == 0;
    uint64_t done = looks ? done_ : 0;
    for (;;) {
      if (looks) shared_.is_over = !find(done);
      block_.sync();
      if (shared_.is_over) return;
      moveBytes(shared_.share.to, shared_.share.from, shared_.share.bytes, block_);
      block_.sync();
      if (!looks) continue;
      releaseFence();
      storeFenced(&done_, ++done);
    }
  }

 private:
  // Waits for the next request; false: there is none.
  HORING_DEVICE bool find(uint64_t done) {
    for (;;) {
      // Read first: requests that are pending at the end are not served.
      const uint32_t ended = loadFlag(call_.ended), reached = loadFlag(call_.reached);
      if (ended != 0 || static_cast<int32_t>(reached - call_.last) >= 0) return false;
      if (loadAcquire(&call_.posted->value) != done) break;
      block_.nap();
    }
    shared_.share = shareOf(call_.requests[done % call_.room]);
    return true;
  }

  // Whole cache lines if the request is aligned; blocks may have no share of a short request.
  HORING_DEVICE CopyRequest shareOf(const CopyRequest& request) const {
    constexpr uint64_t kLineBytes = 128;
    const uint64_t lines = quotientUp(request.bytes, kLineBytes);
    const uint64_t each = quotientUp(lines, static_cast<uint64_t>(call_.blocks)) * kLineBytes;
    const uint64_t begin = std::min<uint64_t>(static_cast<uint64_t>(number_) * each, request.bytes);
    return {request.to + begin, request.from + begin, std::min(each, request.bytes - begin)};
  }

  const CopyCall& call_;
  const int32_t number_;  // the number of the block
  uint64_t& done_;
  Block& block_;
  CopyShared& shared_;
};

}  // namespace horing::cuda
