#include "engine/cuda/device_memory.h"

#include "cuda/outside_of_graphs.h"
#include "cuda/reserve.h"
#include "engine/cuda/arena.h"

namespace horing::cuda {

namespace {

constexpr int64_t kCopyMs =
    60'000;  // timeout of a copy of a few MiB with nothing before it: the GPU is dead then

// Copies use a private stream, which waits for nothing of the program.
class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(std::shared_ptr<const CudaDevice> device)
      : device_(std::move(device)), api_(device_->api()) {}
  ~DeviceMemory() override {
    const OutsideOfGraphs outside(api_);
    const CudaDevice::Current current(*device_);
    if (stream_) api_.stream_destroy(stream_);
    if (begin_) CudaReserve::ofProcess().giveBack(device_, CudaReserve::Kind::kGpu, begin_, arena_.bytes());
  }

  Status take(size_t bytes) {
    const CudaDevice::Current current(*device_);
    HORING_TRY(device_->makeStream(stream_));
    HORING_ASSIGN(begin_, CudaReserve::ofProcess().take(device_, CudaReserve::Kind::kGpu, bytes));
    arena_ = Arena(static_cast<std::byte*>(begin_), bytes, formatString("on GPU %d", device_->number()));
    return clear({static_cast<std::byte*>(begin_), bytes});
  }

  Result<std::byte*> allocate(size_t bytes) override { return arena_.allocate(bytes); }
  size_t used() const override { return arena_.used(); }
  Status rewind(size_t used) override {
    const CudaDevice::Current current(*device_);
    return clear(arena_.rewind(used));
  }
  Status write(void* to, const void* from, size_t bytes) override {
    return copy(to, from, bytes, "copying to a GPU");
  }
  Status read(void* to, const void* from, size_t bytes) override {
    return copy(to, from, bytes, "copying from a GPU");
  }
  size_t bytes() const override { return arena_.bytes(); }

 private:
  // The context must be current.
  Status clear(std::span<std::byte> range) const {
    if (range.empty()) return {};
    HORING_TRY(api_.check(api_.memory_set(cudaAddress(range.data()), 0, range.size(), stream_),
                          "clearing memory of a GPU"));
    return await();
  }
  Status await() const {
    const SteadyClock clock;
    return device_->synchronize(
        stream_, [] { return Status(); }, Deadline::after(clock, kCopyMs));
  }
  Status copy(void* to, const void* from, size_t bytes, const char* what) const {
    const CudaDevice::Current current(*device_);
    HORING_TRY(api_.check(api_.copy(cudaAddress(to), cudaAddress(from), bytes, stream_), what));
    return await();
  }

  const std::shared_ptr<const CudaDevice> device_;
  const CudaApi& api_;
  CudaStream stream_ = nullptr;
  void* begin_ = nullptr;
  Arena arena_;
};

}  // namespace

Result<std::unique_ptr<Memory>> makeDeviceMemory(std::shared_ptr<const CudaDevice> device,
                                                 size_t most_bytes) {
  auto memory = std::make_unique<DeviceMemory>(std::move(device));
  HORING_TRY(memory->take(most_bytes));
  return std::unique_ptr<Memory>(std::move(memory));
}

}  // namespace horing::cuda
