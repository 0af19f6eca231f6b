#include "engine/cuda/pinned_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/cuda/arena.h"

namespace horing::cuda {

namespace {

class PinnedHostMemory final : public Memory {
 public:
  explicit PinnedHostMemory(PinnedMemory memory)
      : memory_(std::move(memory)), arena_(memory_.data(), memory_.bytes(), "of pinned memory") {
    std::memset(memory_.data(), 0, memory_.bytes());
  }

  Result<std::byte*> allocate(size_t bytes) override { return arena_.allocate(bytes); }
  size_t used() const override { return arena_.used(); }
  Status rewind(size_t used) override {
    const auto back = arena_.rewind(used);
    std::fill(back.begin(), back.end(), std::byte{0});
    return {};
  }
  Status write(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status read(void* to, const void* from, size_t bytes) override { return write(to, from, bytes); }
  size_t bytes() const override { return arena_.bytes(); }

 private:
  PinnedMemory memory_;
  Arena arena_;
};

}  // namespace

Result<std::unique_ptr<Memory>> makePinnedMemory(std::shared_ptr<const CudaDevice> device,
                                                 size_t most_bytes) {
  HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(std::move(device), most_bytes));
  return asMemory(std::move(memory));
}

std::unique_ptr<Memory> asMemory(PinnedMemory memory) {
  return std::make_unique<PinnedHostMemory>(std::move(memory));
}

}  // namespace horing::cuda
