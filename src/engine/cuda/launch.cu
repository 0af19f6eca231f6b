#include <cuda_runtime.h>

#include <utility>

#include "engine/cuda/lane_kernels.h"
#include "engine/cuda/launch.h"

namespace horing::cuda {

namespace {

Status cudaStatus(cudaError_t error, const char* tried) {
  if (error == cudaSuccess) return {};
  return makeStatus(Code::kUnhandledCudaError, "%s: %s (%s)", tried, cudaGetErrorString(error),
                    cudaGetErrorName(error));
}

template <int... kTypes>
LaneKernel kernelOf(DataType type, RedOp op, std::integer_sequence<int, kTypes...>) {
  static const std::array rows{laneKernelsOf<static_cast<DataType>(kTypes)>()...};
  return rows[static_cast<size_t>(type)][static_cast<size_t>(op)];
}

Result<LaneKernel> findKernel(DataType type, RedOp op) {
  if (const LaneKernel kernel = kernelOf(type, op, std::make_integer_sequence<int, kDataTypes>()))
    return kernel;
  return makeStatus(Code::kInvalidArgument, "%s has no %s", dataTypeName(type), redOpName(op));
}

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}
  ~DeviceMemory() override {
    (void)cudaSetDevice(device_);
    for (void* piece : pieces_) (void)cudaFree(piece);
  }

  Result<std::byte*> allocate(size_t bytes) override {
    HORING_TRY(cudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
    void* piece = nullptr;
    if (const cudaError_t error = cudaMalloc(&piece, bytes); error != cudaSuccess)
      return makeStatus(Code::kUnhandledCudaError,
                        "GPU %d: %zu bytes are not to be had, beside the %zu of this rank: %s", device_,
                        bytes, bytes_, cudaGetErrorString(error));
    pieces_.push_back(piece);
    bytes_ += bytes;
    HORING_TRY(cudaStatus(cudaMemset(piece, 0, bytes), "cudaMemset"));
    return static_cast<std::byte*>(piece);
  }
  Status write(void* to, const void* from, size_t bytes) override {
    return cudaStatus(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the GPU");
  }
  Status read(void* to, const void* from, size_t bytes) override {
    return cudaStatus(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the GPU");
  }
  size_t bytes() const override { return bytes_; }

 private:
  int device_;
  size_t bytes_ = 0;
  std::vector<void*> pieces_;
};

}  // namespace

Status launch(const BoundPlan& plan, const LaneCall& call, DataType type, RedOp op, void* stream) {
  HORING_ASSIGN(const LaneKernel kernel, findKernel(type, op));
  const dim3 blocks(static_cast<unsigned>(plan.lanes()), static_cast<unsigned>(BoundPlan::partsOf(call)));
  kernel<<<blocks, kLaneThreads, 0, static_cast<cudaStream_t>(stream)>>>(call);
  return cudaStatus(cudaGetLastError(), "launching the kernel of a collective");
}

Result<int> mostResidentBlocks(DataType type, RedOp op) {
  HORING_ASSIGN(const LaneKernel kernel, findKernel(type, op));
  int device = 0, per_processor = 0, processors = 0;
  HORING_TRY(cudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  HORING_TRY(cudaStatus(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                        "cudaDeviceGetAttribute"));
  HORING_TRY(
      cudaStatus(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, kLaneThreads, 0),
                 "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return per_processor * processors;
}

int deviceCount() {
  int count = 0;
  // On an error it may not have been written.
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

Result<std::unique_ptr<Memory>> makeDeviceMemory(int device) {
  if (device < 0 || device >= deviceCount())
    return makeStatus(Code::kInvalidArgument, "device is %d: expected one of %d", device, deviceCount());
  return std::unique_ptr<Memory>(new DeviceMemory(device));
}

Result<std::unique_ptr<PinnedFlag>> PinnedFlag::make() {
  void* flag = nullptr;
  HORING_TRY(cudaStatus(cudaHostAlloc(&flag, sizeof(uint32_t), cudaHostAllocPortable | cudaHostAllocMapped),
                        "cudaHostAlloc"));
  auto made = std::unique_ptr<PinnedFlag>(new PinnedFlag(static_cast<uint32_t*>(flag)));
  made->set(0);
  return std::unique_ptr<PinnedFlag>(std::move(made));
}

PinnedFlag::~PinnedFlag() {
  (void)cudaFreeHost(flag_);
}

void PinnedFlag::set(uint32_t value) {
  __atomic_store_n(flag_, value, __ATOMIC_RELAXED);
}

}  // namespace horing::cuda
