#pragma once
// Which ranks of this process use CUDA's default streams for operations in which the stream waits for another rank. The default stream of a
// GPU is one for all threads, and holds back every other stream of the GPU that is not made with cudaStreamNonBlocking: so where ranks share
// a GPU, one that waits there for a signal holds back the rank that signals.
#include "base/status.h"
#include "control/unique_id.h"
#include "cuda/api.h"

namespace horing {

// One rank of a communicator on its GPU. A resource; any thread.
class DefaultStreams {
 public:
  DefaultStreams(const JobId& communicator, int rank, int gpu);
  ~DefaultStreams();
  DefaultStreams(const DefaultStreams&) = delete;
  DefaultStreams& operator=(const DefaultStreams&) = delete;

  // Before each operation of the rank. kInvalidUsage: another rank of this process is on this GPU, and the stream, or one that the other rank
  // has used, is a default one.
  Status enter(CudaStream stream);

 private:
  const JobId communicator_;
  const int rank_;
  const int gpu_;
  bool has_entered_ = false;  // under the mutex of the process, like the next
  bool uses_default_ = false;
};

}  // namespace horing
