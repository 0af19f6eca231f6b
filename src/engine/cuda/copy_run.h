#pragma once
// Serves what the host asks for (engine/cuda/copy_call.h): each block the requests of its own queue, one after the other.
//
// One thread looks, since each look crosses PCIe; all of them move what it finds.
//
// Block: as in lane.h, with CopyShared, and nap(), between two looks.
#include "engine/cuda/copy_call.h"
#include "engine/cuda/fold_body.h"

namespace horing::cuda {

// What the one thread tells the others of its block.
struct CopyShared {
  CopyRequest found;
  bool is_over;
};

template <class Block>
class CopyRun {
 public:
  HORING_DEVICE CopyRun(const CopyCall& call, int32_t number, Block& block)
      : call_(call), number_(number), queue_(call.queues[number]), block_(block), shared_(block.shared()) {}

  HORING_DEVICE void run() {
    const bool looks = block_.thread() == 0;
    uint64_t done = looks ? queue_.done : 0;
    for (;;) {
      if (looks) shared_.is_over = !find(done);
      block_.sync();
      if (shared_.is_over) return;
      moveBytes(shared_.found.to, shared_.found.from, shared_.found.bytes, block_);
      block_.sync();
      if (!looks) continue;
      releaseFence();
      storeFenced(&queue_.done, ++done);
    }
  }

 private:
  // Waits for the next request; false: there is none.
  HORING_DEVICE bool find(uint64_t done) {
    for (;;) {
      // First: what is left when it is over is not done.
      const uint32_t ended = loadFlag(call_.ended), reached = loadFlag(call_.reached);
      if (ended != 0 || static_cast<int32_t>(reached - call_.last) >= 0) return false;
      if (loadAcquire(&queue_.posted) != done) break;
      block_.nap();
    }
    shared_.found = call_.requests[static_cast<uint64_t>(number_) * call_.room + done % call_.room];
    return true;
  }

  const CopyCall& call_;
  const int32_t number_;  // of the block
  CopyQueue& queue_;
  Block& block_;
  CopyShared& shared_;
};

}  // namespace horing::cuda
