#pragma once
// One library under test, as one of its ranks sees it. Everything else is the same for all libraries: turns.cpp has the buffers,
// warm-up, barrier, clock and checks.
#include <cstddef>
#include <functional>
#include <memory>

#include "base/status.h"
#include "base/types.h"

namespace horing::bench {

// One call of a collective on float32 elements; reductions are sums.
struct Call {
  Collective collective = Collective::kAllReduce;
  size_t count = 0;  // as in the C API: of the whole vector, or of the block of one rank
  float* send = nullptr;
  float* receive = nullptr;
};

using Memory = std::unique_ptr<float, std::function<void(float*)>>;

// A resource; one thread.
class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Zeroed memory for the buffers of a call, already touched: the first use of a page is no communication. Ordinary memory, unless
  // a library has better and is asked for it.
  virtual Result<Memory> allocate(size_t bytes);
  // Collective. The place of the result: call.receive, or call.send for a library that only works in place. The library's own error
  // otherwise.
  virtual Result<const float*> run(const Call& call) = 0;
};

}  // namespace horing::bench
