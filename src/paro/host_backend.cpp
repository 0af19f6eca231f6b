// Data in host memory: work is done on return, and waits are of the calling thread.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "paro/allocator.h"
#include "paro/backend.h"
#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// All that was issued on a stream before it.
class HostMark final : public Awaited {
 public:
  static Result<std::shared_ptr<const Awaited>> of(horingStream_t stream) {
    auto state = std::make_shared<State>();
    state->stream = stream;
    // The callback holds a reference: the client may be destroyed before it returns.
    auto kept = std::make_unique<std::shared_ptr<State>>(state);
    HORING_TRY(statusOf(horingStreamAddCallback(stream, &HostMark::complete, kept.get())));
    (void)kept.release();
    return std::shared_ptr<const Awaited>(new HostMark(std::move(state)));
  }

  // At most until the operations' deadlines.
  Status await() const override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done; });
    if (state_->result == horingSuccess) return {};
    // horingStreamSynchronize() returns the stream's first error with its text.
    HORING_TRY(statusOf(horingStreamSynchronize(state_->stream)));
    return Status(static_cast<Code>(state_->result), "an earlier collective of this stream failed");
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;  // under mutex, like result
    horingResult_t result = horingSuccess;
    horingStream_t stream = nullptr;  // constant; outlives all waiters
  };
  explicit HostMark(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void complete(horingStream_t, horingResult_t result, void* kept) {
    const std::unique_ptr<std::shared_ptr<State>> mine(static_cast<std::shared_ptr<State>*>(kept));
    State& state = **mine;
    const std::lock_guard lock(state.mutex);
    state.result = result;
    state.done = true;
    state.changed.notify_all();
  }

  std::shared_ptr<State> state_;
};

class HostStream final : public TransferStream {
 public:
  explicit HostStream(horingStream_t stream) : stream_(stream) {}
  ~HostStream() override { (void)horingStreamDestroy(stream_); }
  horingStream_t get() const override { return stream_; }
  Status follow() override { return {}; }
  Result<std::shared_ptr<const Awaited>> mark() override { return HostMark::of(stream_); }

 private:
  const horingStream_t stream_;
};

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const horingParoMemory_t& memory) : memory_(memory) {}
  bool isHost() const override { return true; }
  Status error() const override { return {}; }
  Status checkNotRecorded() const override { return {}; }

  Result<std::byte*> allocate(size_t bytes, const char* what) override {
    HORING_ASSIGN(std::byte* const at,
                  memory_.allocate ? allocateBy(memory_, bytes, what) : own(bytes, what));
    std::memset(at, 0, bytes);
    return at;
  }
  void release(std::byte* at, size_t bytes) noexcept override {
    if (memory_.allocate)
      memory_.release(at, bytes, memory_.context);
    else
      std::free(at);
  }

  Status convert(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
                 size_t count) override {
    paro::convert(from, from_type, to, to_type, count);
    return {};
  }
  Status accumulate(void* sum, const void* added, horingDataType_t type, size_t count,
                    double factor) override {
    paro::accumulate(sum, added, type, count, factor);
    return {};
  }
  Status scale(void* values, double factor, horingDataType_t type, size_t count) override {
    paro::scale(values, factor, type, count);
    return {};
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  Status clear(void* at, size_t bytes) override {
    if (bytes > 0) std::memset(at, 0, bytes);
    return {};
  }
  Status addSquares(const void* values, horingDataType_t type, size_t count) override {
    squares_.sum += sumOfSquares(values, type, count);
    squares_.finite &= allFinite(values, type, count);
    return {};
  }
  Result<Squares> takeSquares() override { return std::exchange(squares_, Squares()); }

  Status checkReadable(const void*, const char*, const std::string&) const override { return {}; }
  Status checkTakeable(const void*, const std::string&) const override { return {}; }
  Status take(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
              size_t count) override {
    return convert(from, from_type, to, to_type, count);
  }
  Status read(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  Status write(void* to, const void* from, size_t bytes) override { return copy(to, from, bytes); }
  Status finish() override { return {}; }

  Result<std::unique_ptr<TransferStream>> makeStream() override {
    horingStream_t stream = nullptr;
    HORING_TRY(statusOf(horingStreamCreate(&stream)));
    return std::unique_ptr<TransferStream>(std::make_unique<HostStream>(stream));
  }

 private:
  static Result<std::byte*> own(size_t bytes, const char* what) {
    void* const at = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (at) return static_cast<std::byte*>(at);
    return makeStatus(Code::kSystemError,
                      "there is no memory for %s, %zu bytes: take a strategy that needs less", what, bytes);
  }

  const horingParoMemory_t memory_;
  Squares squares_;
};

}  // namespace

std::unique_ptr<Backend> makeHostBackend(const horingParoMemory_t& memory) {
  return std::make_unique<HostBackend>(memory);
}

}  // namespace horing::paro
