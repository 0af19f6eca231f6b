#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capi/group.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace horing {

// The driver of this process; null while it has loaded none: then all memory is the host's.
const CudaDriver* processDriver();

// PCI address of a GPU, of the driver's number, or of the one that is current on the calling thread (-1); empty: there is none.
std::string gpuBus(int device = -1);
// The same GPU; null: there is none.
std::shared_ptr<const CudaDevice> openGpu(int device = -1);

struct Where {
  int rank = 0;
  horingStream_t foreign_stream = nullptr;  // one that is not this library's; null: the call has none
  std::optional<int> gpu{};                 // that the communicator works on, if it has had any
};
// The GPU that a command works on, and what of its buffers only that reaches.
struct GpuBuffers {
  struct Placed {
    CommandBuffer buffer;
    MemoryPlace place;
  };
  int device = -1;
  std::vector<Placed> buffers{};
  std::vector<const void*> pinned{};  // of the others, those in pinned memory
};
// None: a command's buffers are ones that the host reaches, pinned and managed memory included. These are the stream's GPU's on a foreign
// stream; no buffers at all are there too, and empty messages else on the communicator's GPU. Each is looked up once.
// kInvalidUsage names two buffers that are in different places.
Result<std::optional<GpuBuffers>> gpuBuffersOf(const Command& command, const CudaDriver& driver,
                                               const Where& where);

// Of a call on that GPU: the scalar of its operation stays where GPU and driver can read it in the order of a stream; from memory
// of the host that is not pinned it is read now. kInvalidUsage: it is on another GPU, or of a context of its own.
Status placeScalar(Call& call, const CudaDriver& driver, const CudaDevice& gpu);

// kInvalidUsage: the host does not reach it.
Status checkHostReaches(const char* name, const void* buffer);

}  // namespace horing
