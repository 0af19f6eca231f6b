#pragma once
// Memory and streams of a GPU of the fake driver, for tests that are its users.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "fake_cuda.h"

namespace horing::test {

// A context that is current on this thread.
class CurrentGpu {
 public:
  CurrentGpu(const FakeCuda& cuda, int device) : cuda_(cuda) {
    void* context = nullptr;
    EXPECT_EQ(cuda.call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), 0);
    EXPECT_EQ(cuda.call<int(void*)>("cuCtxPushCurrent_v2")(context), 0);
  }
  // Another context than the primary one.
  CurrentGpu(const FakeCuda& cuda, void* context) : cuda_(cuda) {
    EXPECT_EQ(cuda.call<int(void*)>("cuCtxPushCurrent_v2")(context), 0);
  }
  ~CurrentGpu() {
    void* context = nullptr;
    EXPECT_EQ(cuda_.call<int(void**)>("cuCtxPopCurrent_v2")(&context), 0);
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  const FakeCuda& cuda_;
};

class GpuStream {
 public:
  enum Flags : unsigned int { kBlocking = 0, kNonBlocking = 1 };  // for the default stream
  GpuStream(const FakeCuda& cuda, int device, Flags flags = kNonBlocking) : cuda_(cuda), device_(device) {
    const CurrentGpu current(cuda, device);
    EXPECT_EQ(cuda.call<int(void**, unsigned int)>("cuStreamCreate")(&stream_, flags), 0);
  }
  // The default one of the GPU that is current, wherever this is used.
  static GpuStream ofDefault(const FakeCuda& cuda) { return GpuStream(cuda); }
  // That of the calling thread alone, on the GPU that is current.
  static GpuStream ofThread(const FakeCuda& cuda) { return GpuStream(cuda, kOfThread); }
  ~GpuStream() {
    if (stream_ && stream_ != kOfThread) {
      const auto current = use();
      EXPECT_EQ(cuda_.call<int(void*)>("cuStreamDestroy_v2")(stream_), 0);
    }
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  void* get() const { return stream_; }
  // Makes its GPU current while it exists: a driver does little for a thread without a context.
  std::unique_ptr<CurrentGpu> use() const {
    return device_ < 0 ? nullptr : std::make_unique<CurrentGpu>(cuda_, device_);
  }
  void synchronize() const {
    const auto current = use();
    EXPECT_EQ(cuda_.call<int(void*)>("cuStreamSynchronize")(stream_), 0);
  }
  bool idle() const {
    const auto current = use();
    const int state = cuda_.call<int(void*)>("cuStreamQuery")(stream_);
    EXPECT_TRUE(state == 0 || state == kNotReady) << state;
    return state == 0;
  }
  // When it has come so far.
  void set(std::atomic<bool>& flag) const {
    const auto current = use();
    const auto set = [](void* data) { static_cast<std::atomic<bool>*>(data)->store(true); };
    EXPECT_EQ(cuda_.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(stream_, set, &flag), 0);
  }
  // Holds the stream up until `gate` is set.
  void waitFor(const std::atomic<bool>& gate) const {
    const auto current = use();
    const auto wait = [](void* data) {
      while (!static_cast<const std::atomic<bool>*>(data)->load())
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
    EXPECT_EQ(cuda_.call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
                  stream_, wait, const_cast<std::atomic<bool>*>(&gate)),
              0);
  }

 private:
  static inline void* const kOfThread = reinterpret_cast<void*>(0x2);  // cudaStreamPerThread
  static constexpr int kNotReady = 600;
  explicit GpuStream(const FakeCuda& cuda, void* stream = nullptr) : cuda_(cuda), stream_(stream) {}
  const FakeCuda& cuda_;
  const int device_ = -1;
  void* stream_ = nullptr;
};

// Elements in memory of the host that is pinned: copies between a GPU and any other return when a driver likes.
template <typename T>
class PinnedVector {
 public:
  PinnedVector(const FakeCuda& cuda, int device, const std::vector<T>& values)
      : cuda_(cuda), device_(device), size_(values.size()) {
    const CurrentGpu current(cuda, device);
    void* at = nullptr;
    EXPECT_EQ(cuda.call<int(void**, size_t, unsigned int)>("cuMemHostAlloc")(&at, size_ * sizeof(T) + 1, 1),
              0);
    at_ = static_cast<T*>(at);
    std::copy(values.begin(), values.end(), at_);
  }
  PinnedVector(const FakeCuda& cuda, int device, size_t size)
      : PinnedVector(cuda, device, std::vector<T>(size)) {}
  ~PinnedVector() {
    const CurrentGpu current(cuda_, device_);
    EXPECT_EQ(cuda_.call<int(void*)>("cuMemFreeHost")(at_), 0);
  }
  PinnedVector(const PinnedVector&) = delete;
  PinnedVector& operator=(const PinnedVector&) = delete;

  T* data() const { return at_; }
  // When no stream writes there.
  std::vector<T> values() const { return std::vector<T>(at_, at_ + size_); }

 private:
  const FakeCuda& cuda_;
  const int device_;
  const size_t size_;
  T* at_ = nullptr;
};

// GPU memory in a context that a program has made besides the primary one.
class ForeignMemory {
 public:
  ForeignMemory(const FakeCuda& cuda, int device, size_t bytes)
      : cuda_(cuda), context_(cuda.context(device, false)) {
    const CurrentGpu current(cuda_, context_);
    EXPECT_EQ(cuda_.call<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&at_, bytes), 0);
  }
  ~ForeignMemory() {
    const CurrentGpu current(cuda_, context_);
    EXPECT_EQ(cuda_.call<int(unsigned long long)>("cuMemFree_v2")(at_), 0);
  }
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  float* data() const { return reinterpret_cast<float*>(at_); }

 private:
  const FakeCuda& cuda_;
  void* const context_;
  unsigned long long at_ = 0;
};

// Elements on a GPU.
template <typename T>
class GpuVector {
 public:
  GpuVector(const FakeCuda& cuda, int device, const std::vector<T>& values)
      : cuda_(cuda), device_(device), size_(values.size()) {
    const CurrentGpu current(cuda, device);
    EXPECT_EQ(cuda.call<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&at_, size_ * sizeof(T) + 1), 0);
    write(values);
  }
  ~GpuVector() {
    const CurrentGpu current(cuda_, device_);
    EXPECT_EQ(cuda_.call<int(unsigned long long)>("cuMemFree_v2")(at_), 0);
  }
  GpuVector(const GpuVector&) = delete;
  GpuVector& operator=(const GpuVector&) = delete;

  T* data() const { return reinterpret_cast<T*>(at_); }
  // Complete on return.
  void write(const std::vector<T>& values) const {
    const GpuStream stream(cuda_, device_);
    copy(stream, at_, reinterpret_cast<unsigned long long>(values.data()));
    stream.synchronize();
  }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    const GpuStream stream(cuda_, device_);
    copy(stream, reinterpret_cast<unsigned long long>(values.data()), at_);
    stream.synchronize();
    return values;
  }
  // When the stream comes to it; `values`, of the same size, must stay until then.
  void writeOn(const GpuStream& stream, const PinnedVector<T>& values) const {
    copy(stream, at_, reinterpret_cast<unsigned long long>(values.data()));
  }
  void readOn(const GpuStream& stream, const PinnedVector<T>& values) const {
    copy(stream, reinterpret_cast<unsigned long long>(values.data()), at_);
  }

 private:
  void copy(const GpuStream& stream, unsigned long long to, unsigned long long from) const {
    const CurrentGpu current(cuda_, device_);
    EXPECT_EQ(cuda_.call<int(unsigned long long, unsigned long long, size_t, void*)>("cuMemcpyAsync")(
                  to, from, size_ * sizeof(T), stream.get()),
              0);
  }

  const FakeCuda& cuda_;
  const int device_;
  const size_t size_;
  unsigned long long at_ = 0;
};

}  // namespace horing::test
