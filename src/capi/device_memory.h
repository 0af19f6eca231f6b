#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capi/group.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace horing {

// The PCI address of a GPU by the driver's number, or of the GPU that is current on the calling thread (-1); empty: none.
std::string gpuBus(int device = -1);
// The same GPU; null: none.
std::shared_ptr<const CudaDevice> openGpu(int device = -1);

// The GPU of a stream that is not this library's. Nothing: the default stream where no GPU is current, so that there is none.
Result<std::optional<int>> gpuOfStream(const CudaDriver& driver, horingStream_t stream);

struct Where {
  int rank = 0;
  horingStream_t foreign_stream = nullptr;  // not a stream of this library; null: none
  std::optional<int> gpu{};                 // the communicator's GPU, if it has one
};
// The GPU that a command works on, and its buffers by accessibility.
struct GpuBuffers {
  struct Placed {
    CommandBuffer buffer;
    MemoryPlace place;
  };
  int device = -1;
  std::vector<Placed> buffers{};
  std::vector<const void*> pinned{};  // buffers in pinned memory
};
// Nothing: the host can access all buffers of the command, pinned and managed memory included. On a foreign stream, pinned and managed
// buffers count as the stream's GPU's, and so does a command without buffers; on other streams empty messages without tags count as the
// communicator's GPU's. Looks up each buffer once. kInvalidUsage names two buffers in different places.
Result<std::optional<GpuBuffers>> gpuBuffersOf(const Command& command, const CudaDriver& driver,
                                               const Where& where);

// For a call on that GPU: the scalar of its operation stays in place if the GPU and the driver can read it in stream order; from unpinned
// host memory it is read now. kInvalidUsage: the scalar is on another GPU, or in a non-primary context.
Status placeScalar(Call& call, const CudaDriver& driver, const CudaDevice& gpu);

// kInvalidUsage: the host cannot access the buffer.
Status checkHostReaches(const char* name, const void* buffer);

}  // namespace horing
