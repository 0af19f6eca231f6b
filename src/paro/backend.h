#pragma once
// Where a client's data is, and what computes on it: the host, or a GPU.
//
// Work takes effect in the order of the calls. The host's is done on return. A GPU's is enqueued on the caller's stream, which so takes the
// place of the calling thread: where a client on the host waits, a client on a GPU makes that stream wait.
#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/grid.h"

namespace horing::paro {

// Something on a transfer stream that work waits for.
class Awaited {
 public:
  virtual ~Awaited() = default;
  // What the backend does from now on comes after it.
  virtual Status await() const = 0;
};

// A stream of collectives beside the backend's work. A resource: the destructor waits for its operations.
class TransferStream {
 public:
  virtual ~TransferStream() = default;
  virtual horingStream_t get() const = 0;
  // What is issued from now on comes after what the backend has been told to do so far.
  virtual Status follow() = 0;
  // Stands for all that was issued so far.
  virtual Result<std::shared_ptr<const Awaited>> mark() = 0;
};

// The sum of squares of vectors in float64; infinite or NaN if an element is.
struct Squares {
  double sum = 0;
  bool finite = true;
};

// One thread at a time; outlives its memory and streams.
class Backend {
 public:
  virtual ~Backend() = default;
  // The host can access the data, and work is done on return.
  virtual bool isHost() const = 0;
  // The first error of work, after which no more is done.
  virtual Status error() const = 0;
  // kInvalidUsage: the program records work of this stream in a graph.
  virtual Status checkNotRecorded() const = 0;

  // Zeroed, aligned to 64 bytes; `what` it is for, for errors.
  virtual Result<std::byte*> allocate(size_t bytes, const char* what) = 0;
  // Waits for work on it.
  virtual void release(std::byte* at, size_t bytes) noexcept = 0;

  // As the functions of convert.h.
  virtual Status convert(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
                         size_t count) = 0;
  virtual Status accumulate(void* sum, const void* added, horingDataType_t type, size_t count,
                            double factor) = 0;
  virtual Status scale(void* values, double factor, horingDataType_t type, size_t count) = 0;
  virtual Status copy(void* to, const void* from, size_t bytes) = 0;
  virtual Status clear(void* at, size_t bytes) = 0;
  // Adds the squares of a vector to those that the next takeSquares() returns.
  virtual Status addSquares(const void* values, horingDataType_t type, size_t count) = 0;
  // Waits.
  virtual Result<Squares> takeSquares() = 0;

  // Refuses memory of the caller that work cannot read; `what` it is, "a gradient", and `of` what.
  virtual Status checkReadable(const void* memory, const char* what, const std::string& of) const = 0;
  // Refuses memory of the caller that take() cannot read: of another GPU. `of`: what has the values.
  virtual Status checkTakeable(const void* memory, const std::string& of) const = 0;
  // As convert(), from memory of the caller that is the host's or the backend's GPU's, and has been read on return if it is the host's.
  virtual Status take(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
                      size_t count) = 0;
  // To and from memory of the host; both are done on return.
  virtual Status read(void* to, const void* from, size_t bytes) = 0;
  virtual Status write(void* to, const void* from, size_t bytes) = 0;
  // Waits for all work.
  virtual Status finish() = 0;

  virtual Result<std::unique_ptr<TransferStream>> makeStream() = 0;
};

// Host memory: of the library, or of the caller's functions.
std::unique_ptr<Backend> makeHostBackend(const horingParoMemory_t& memory);
// The GPU of memory.stream. `grid`, whose news and timeout end waits, must outlive it.
Result<std::unique_ptr<Backend>> makeGpuBackend(const horingParoMemory_t& memory, const Grid& grid);

}  // namespace horing::paro
