#pragma once
// The arguments of a kernel that copies between GPU memory and pinned memory on request of the host.
//
// The driver may delay its own copies until a stream that waits for them is idle: a deadlock. So the kernel runs on that stream, and a
// request needs no driver call.
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

// Passed by value. Pointers are to pinned memory. Counters are monotonic over all kernels; kernels that share counters run one at a time.
//
// All blocks share each request, in the order of the requests.
struct CopyCall {
  const CopyCount* posted = nullptr;      // requests; written by the host
  CopyCount* done = nullptr;              // [block]: requests done; written by the block
  const CopyRequest* requests = nullptr;  // [count % room]
  uint32_t room = 1;                      // pending requests, at most
  int32_t blocks = 1;                     // blocks of the grid
  // The kernel ends when `reached` is `last` or more, as a signed difference. The host ensures that no request is pending then, ...
  const uint32_t* reached = nullptr;
  uint32_t last = 0;
  // ... or sets this flag first: later kernels must not serve pending requests either, since the memory may be freed.
  const uint32_t* ended = nullptr;
};

}  // namespace horing::cuda
