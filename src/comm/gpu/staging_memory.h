#pragma once
// Pinned host memory that is registered with a communicator, so that networks move it in place if they can.
#include <cstddef>
#include <memory>
#include <utility>

#include "comm/communicator.h"
#include "cuda/device.h"

namespace horing {

class StagingMemory {
 public:
  // The communicator must outlive it. Errors: as for PinnedMemory.
  static Result<StagingMemory> allocate(const std::shared_ptr<const CudaDevice>& device,
                                        Communicator& communicator, size_t bytes) {
    StagingMemory made(communicator);
    HORING_ASSIGN(made.memory_, PinnedMemory::allocate(device, bytes));
    // Memory that cannot be registered is copied.
    Result<void*> handle = communicator.reach().registerMemory(made.memory_.data(), bytes);
    if (handle.ok()) made.handle_ = handle.take();
    return made;
  }
  StagingMemory(StagingMemory&& other) noexcept
      : communicator_(other.communicator_),
        memory_(std::move(other.memory_)),
        handle_(std::exchange(other.handle_, nullptr)) {}
  StagingMemory& operator=(StagingMemory&&) = delete;
  ~StagingMemory() {
    if (handle_) [[maybe_unused]]
      const Status gone = communicator_.reach().deregister(handle_);
  }

  std::byte* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }
  // As PinnedMemory::leak(); it stays registered, too.
  void leak() {
    memory_.leak();
    handle_ = nullptr;
  }

 private:
  explicit StagingMemory(Communicator& communicator) : communicator_(communicator) {}

  Communicator& communicator_;
  PinnedMemory memory_;
  void* handle_ = nullptr;  // null: not registered
};

}  // namespace horing
