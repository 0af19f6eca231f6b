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
      : memory_(std::move(memory)), arena_(memory_.data(), memory_.bytes(), "of pinned memory") {}

  Result<std::byte*> allocate(size_t bytes) override {
    // Zeroed now, not all at once: most of it is never allocated, and programs with many communicators would pay for each.
    const size_t before = arena_.used();
    HORING_ASSIGN(std::byte* const at, arena_.allocate(bytes));
    std::fill_n(at, arena_.used() - before, std::byte{0});
    return at;
  }
  size_t used() const override { return arena_.used(); }
  Status rewind(size_t used) override {
    (void)arena_.rewind(used);
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
