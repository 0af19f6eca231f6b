#pragma once
// Copies that the host asks a kernel for while it runs, between memory of the GPU and pinned memory: what such a kernel gets.
//
// A driver may keep its own copies until a stream has ended that waits for them. So the kernel runs on that very stream, and asking it
// takes no call of the driver.
#include <cstddef>
#include <cstdint>

namespace horing::cuda {

struct CopyRequest {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

struct alignas(64) CopyCount {
  uint64_t value = 0;
};

// By value. What it points to is pinned. Counts only grow, over all kernels; kernels that have the same run one after the other.
//
// All blocks serve each request, a share each, in the order of the requests.
struct CopyCall {
  const CopyCount* posted = nullptr;      // requests; written by the host
  CopyCount* done = nullptr;              // [block], of them; written by the block
  const CopyRequest* requests = nullptr;  // [count % room]
  uint32_t room = 1;                      // for those that are not done
  int32_t blocks = 1;                     // of the grid
  // The kernel ends when `reached` is `last` or more, as a signed difference. The host sees to it that nothing is left to do then, ...
  const uint32_t* reached = nullptr;
  uint32_t last = 0;
  // ... or sets this flag before: what is left shall not be done by a later kernel either, for the memory may be gone.
  const uint32_t* ended = nullptr;
};

}  // namespace horing::cuda
