#pragma once
// One rank's run through all types, operations and sizes. Ranks do the same in step; rank 0 gets the rows.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "perf/collectives.h"
#include "perf/data_check.h"
#include "perf/gpu_buffers.h"
#include "perf/options.h"
#include "perf/ranks.h"
#include "perf/table.h"

namespace horing::perf {

// Page-aligned memory whose contents start undefined.
enum class BufferMemory : int {
  kOrdinary = 0,
  kShared = 1,  // horingMemAlloc
};

struct FreeBuffer {
  BufferMemory memory = BufferMemory::kOrdinary;
  void operator()(std::byte* data) const;
};

class Buffer {
 public:
  static Result<Buffer> allocate(size_t bytes, BufferMemory memory = BufferMemory::kOrdinary);
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, FreeBuffer> data_;
  size_t bytes_ = 0;
};

// Called on rank 0 for each row, as soon as it is measured.
using RowListener = std::function<void(const Row&)>;

class Sweep {
 public:
  // `options.max_bytes` must already fit the memory.
  // `gpu`: where the collective's buffers are, if not on the host; must outlive it. `simulated`: for predictions, or NULL.
  Sweep(const CollectiveTest& test, const Options& options, Ranks ranks, const Gpu* gpu,
        horingComm_t simulated)
      : test_(test), options_(options), ranks_(ranks), gpu_(gpu), simulated_(simulated) {}

  // Collective. The library's first error ends it.
  Status run(const RowListener& listener);
  // The same on every rank.
  Totals totals() const;
  uint64_t bufferBytes() const { return send_.bytes() + receive_.bytes() + expected_.bytes(); }

 private:
  enum class Place { kOut, kIn };
  struct Kind {
    DataType type;
    std::optional<RedOp> op;  // none: nothing is reduced
    int root;                 // -1: there is none
  };
  struct Operation {
    Kind kind;
    Layout layout;
    Place place;
  };
  struct Addresses {
    std::byte* send;
    std::byte* receive;
  };

  Status allocate();
  // What -d, -o and -r ask for, in that order.
  std::vector<Kind> kinds() const;
  Layout layoutOf(const Kind& kind, uint64_t bytes) const;
  Status warmUp(const Kind& kind);
  Status measureAllSizes(const Kind& kind, const RowListener& listener);
  Result<Measurement> measure(const Operation& operation);
  void count(const Measurement& measurement);
  // Local. Nothing: it cannot be simulated.
  std::optional<Prediction> predict(const Operation& operation);
  Status timeIterations(const Operation& operation, Measurement& measurement);
  Status keepIterationTimes(std::vector<double> times_us, Measurement& measurement);
  Result<double> overRanks(double value);
  Result<uint64_t> check(const Operation& operation);
  Result<uint64_t> checkOnce(const Operation& operation, uint64_t seed);
  CheckedOperation dataOf(const Operation& operation, uint64_t seed) const;
  void fillSend(const Operation& operation, const CheckedOperation& data) const;
  void fillExpected(const Operation& operation, const CheckedOperation& data) const;
  Addresses addresses(const Operation& operation, uint64_t iteration) const;
  Status launch(const Operation& operation, uint64_t iteration) {
    return launch(operation, iteration, ranks_.comm());
  }
  Status launch(const Operation& operation, uint64_t iteration, horingComm_t comm);
  // Until all that was launched is complete; on host memory it is at once.
  Status complete() const { return gpu_ ? gpu_->synchronize() : Status(); }
  // The place of a host buffer's data for the collective.
  std::byte* seenByCollective(std::byte* host) const;
  // Copies an operation's inputs from the host's buffers, and its results back.
  Status toGpu(const Operation& operation) const;
  Status toHost(const Operation& operation) const;

  const CollectiveTest& test_;
  Options options_;
  Ranks ranks_;
  const Gpu* gpu_;
  horingComm_t simulated_;
  Buffer send_;
  Buffer receive_;
  std::unique_ptr<GpuMirror> gpu_send_, gpu_receive_;  // null: buffers are on the host
  Buffer expected_;
  Totals totals_;
  double bandwidth_sum_ = 0;
  uint64_t bandwidths_ = 0;
};

}  // namespace horing::perf
