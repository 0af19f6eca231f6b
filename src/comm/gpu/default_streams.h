#pragma once
// Which ranks of this process are on streams of CUDA that hold each other back, for operations in which a stream waits for another rank. The
// default stream of a GPU is one for all threads; it and every other stream of the GPU that is not made with cudaStreamNonBlocking wait for
// each other. So where ranks share a GPU, one that waits for a signal of another may hold back the stream on which that one would signal.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "control/unique_id.h"
#include "cuda/device.h"

namespace horing {

// An operation of a rank on such a stream. A resource: the operation's owner keeps it until the operation can hold no other back, nor be held
// back itself. A wait for signals: until it is over. An operation that is complete on return: until then. Any other: until it is enqueued,
// since what comes later on these streams comes behind it. Any thread.
class StreamUse {
 public:
  struct Rank {
    JobId communicator;
    int number;
  };
  // Before each operation of the rank on a stream of `device`, its GPU; `waits`: for signals. Null: other streams do not hold this one back.
  // kInvalidUsage: another rank of this process uses a stream of this GPU, that one and this one hold each other back, and on one of both a
  // rank waits.
  static Result<std::shared_ptr<const StreamUse>> enter(const Rank& rank, const CudaDevice& device,
                                                        CudaStream stream, bool waits);
  ~StreamUse();
  StreamUse(const StreamUse&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;

  bool waits() const { return waits_; }
  // How many there are in this process.
  static size_t count();

 private:
  enum class Kind { kBlocking, kOfThread, kDefault };
  StreamUse(const Rank& rank, int gpu, Kind kind, bool waits);
  bool holdsBack(const StreamUse& other) const;
  Status refusedFor(const StreamUse& other) const;
  const char* streamName() const;

  const Rank rank_;
  const int gpu_;
  const Kind kind_;
  const uint64_t thread_;  // whose stream it is, if kOfThread
  const bool waits_;
};

}  // namespace horing
