#pragma once
// Which ranks of this process use streams of CUDA that hold each other back, for operations in which a stream waits for another rank. The
// default stream of a GPU is one for all threads; it and every other stream of the GPU that is not made with cudaStreamNonBlocking wait for
// each other. So where ranks share a GPU, one that waits for a signal of another may hold back the stream on which that one would signal.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "control/unique_id.h"
#include "cuda/device.h"

namespace horing {

// One rank of a communicator on its GPU. A resource; any thread.
class DefaultStreams {
 public:
  DefaultStreams(const JobId& communicator, int rank, int gpu);
  ~DefaultStreams();
  DefaultStreams(const DefaultStreams&) = delete;
  DefaultStreams& operator=(const DefaultStreams&) = delete;

  // Before each operation of the rank on a stream of `device`, its GPU; `waits`: for signals. kInvalidUsage: another rank of this process is
  // on this GPU, this stream and one that the other rank has used hold each other back, and on one of both a rank waits.
  Status enter(const CudaDevice& device, CudaStream stream, bool waits);
  // The number of different uses so far; for takeBack(), which undoes what was entered since, if nothing of that was enqueued.
  size_t uses() const { return uses_.size(); }
  void takeBack(size_t uses);

 private:
  enum class Kind { kBlocking, kOfThread, kDefault };
  struct Use {
    Kind kind;
    uint64_t thread;  // of a stream kOfThread
    bool waits;
    bool operator==(const Use&) const = default;
  };
  static bool holdEachOtherBack(const Use& one, const Use& other);
  static const char* nameOf(Kind kind);

  const JobId communicator_;
  const int rank_;
  const int gpu_;
  std::vector<Use> uses_;  // under the mutex of the process; empty: it is not in the list of the process
};

}  // namespace horing
