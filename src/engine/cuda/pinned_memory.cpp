#include "engine/cuda/pinned_memory.h"

#include <cstring>
#include <utility>

namespace horing::cuda {

namespace {

constexpr size_t kAlignment = 256;

class PinnedHostMemory final : public Memory {
 public:
  explicit PinnedHostMemory(PinnedMemory memory) : memory_(std::move(memory)) {
    std::memset(memory_.data(), 0, memory_.bytes());
  }

  Result<std::byte*> allocate(size_t bytes) override {
    const size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (taken > memory_.bytes() - used_)
      return makeStatus(
          Code::kUnhandledCudaError,
          "%zu bytes of pinned memory are not to be had: %zu of the %zu bytes of this rank are in use", bytes,
          used_, memory_.bytes());
    return memory_.data() + std::exchange(used_, used_ + taken);
  }
  Status write(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status read(void* to, const void* from, size_t bytes) override { return write(to, from, bytes); }
  size_t bytes() const override { return memory_.bytes(); }

 private:
  PinnedMemory memory_;
  size_t used_ = 0;
};

}  // namespace

Result<std::unique_ptr<Memory>> makePinnedMemory(std::shared_ptr<const CudaDevice> device,
                                                 size_t most_bytes) {
  HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(std::move(device), most_bytes));
  return std::unique_ptr<Memory>(std::make_unique<PinnedHostMemory>(std::move(memory)));
}

}  // namespace horing::cuda
