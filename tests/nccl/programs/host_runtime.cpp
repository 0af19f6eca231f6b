// What programs by others call of CUDA's runtime, on memory of the host: the GPUs are processors of this machine, and a stream is one
// of horing's, which the library behind libnccl.so.2 orders its operations by. Compiled by programs_test.py.
#include <cuda_runtime.h>
#include <horing/horing.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "host_kernels.h"

struct CUevent_st {
  std::mutex mutex;
  std::condition_variable changed;
  int pending = 0;
  std::chrono::steady_clock::time_point when{};
};

namespace {

// HOST_GPUS in the environment: fewer.
const int gpus = [] {
  const char* const set = std::getenv("HOST_GPUS");
  return set ? std::atoi(set) : 8;
}();
thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

struct Owner {
  int gpu;
  bool waits_for_default;
};
std::mutex mutex;
std::map<horingStream_t, Owner> streams;
std::map<const void*, HostBind> kernels;

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
cudaError_t keep(horingResult_t result) {
  if (result == horingInProgress) return cudaErrorNotReady;
  return keep(result == horingSuccess ? cudaSuccess : cudaErrorUnknown);
}
horingStream_t own(cudaStream_t stream) {
  return reinterpret_cast<horingStream_t>(stream);
}
bool isDefault(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

cudaError_t awaitGpu(bool also_independent) {
  std::vector<horingStream_t> awaited;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [stream, owner] : streams)
      if (owner.gpu == current && (also_independent || owner.waits_for_default)) awaited.push_back(stream);
  }
  for (const horingStream_t stream : awaited)
    if (const cudaError_t error = keep(horingStreamSynchronize(stream)); error != cudaSuccess) return error;
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (isDefault(stream)) {
    const cudaError_t error = awaitGpu(false);
    if (error == cudaSuccess) work();
    return error;
  }
  auto* const kept = new std::function<void()>(std::move(work));
  const auto run = [](horingStream_t, horingResult_t, void* data) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
    (*owned)();
  };
  return keep(horingStreamAddCallback(own(stream), run, kept));
}

cudaError_t makeStream(cudaStream_t* stream, bool waits_for_default) {
  horingStream_t made = nullptr;
  const cudaError_t error = keep(horingStreamCreate(&made));
  const std::lock_guard lock(mutex);
  if (error == cudaSuccess) streams[made] = {current, waits_for_default};
  *stream = reinterpret_cast<cudaStream_t>(made);
  return error;
}

cudaError_t allocate(void** at, size_t bytes) {
  *at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return keep(*at ? cudaSuccess : cudaErrorMemoryAllocation);
}

}  // namespace

void hostEnqueue(cudaStream_t stream, std::function<void()> work) {
  enqueue(stream, std::move(work));
}
const void* hostRegister(const void* kernel, HostBind bind) {
  const std::lock_guard lock(mutex);
  kernels[kernel] = bind;
  return kernel;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= gpus) return keep(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strcpy(properties->name, "memory of the host");
  properties->pciBusID = device;
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = size_t{1} << 30;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return awaitGpu(true);
}
cudaError_t cudaDeviceReset() {
  return awaitGpu(true);
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *available = *total = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "error of the stand-in for CUDA's runtime";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorUnknown";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}

cudaError_t cudaMalloc(void** at, size_t bytes) {
  return allocate(at, bytes);
}
cudaError_t cudaMallocHost(void** at, size_t bytes) {
  return allocate(at, bytes);
}
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned int) {
  return allocate(at, bytes);
}
cudaError_t cudaFree(void* at) {
  const cudaError_t error = awaitGpu(true);
  std::free(at);
  return error;
}
cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return enqueue(stream, [=] { std::memmove(to, from, bytes); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return enqueue(stream, [=] { std::memset(at, value, bytes); });
}
cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  return cudaMemsetAsync(at, value, bytes, nullptr);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return makeStream(stream, true);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return makeStream(stream, (flags & cudaStreamNonBlocking) == 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    streams.erase(own(stream));
  }
  return keep(horingStreamDestroy(own(stream)));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return isDefault(stream) ? awaitGpu(false) : keep(horingStreamSynchronize(own(stream)));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return isDefault(stream) ? cudaSuccess : keep(horingStreamQuery(own(stream)));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock lock(event->mutex);
  event->changed.wait(lock, [event] { return event->pending == 0; });
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaEventSynchronize(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  {
    const std::lock_guard lock(event->mutex);
    ++event->pending;
  }
  return enqueue(stream, [event] {
    const std::lock_guard lock(event->mutex);
    event->when = std::chrono::steady_clock::now();
    --event->pending;
    event->changed.notify_all();
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->when - begin->when).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return enqueue(stream, [event] { cudaEventSynchronize(event); });
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t,
                             cudaStream_t stream) {
  HostBind bind = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kernels.find(kernel); found != kernels.end()) bind = found->second;
  }
  if (!bind) return keep(cudaErrorInvalidDeviceFunction);
  return enqueue(stream, [=, body = bind(kernel, arguments)] { onEveryThread(grid, block, body); });
}

// Graphs are not there.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return keep(cudaErrorNotSupported);
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return keep(cudaErrorNotSupported);
}
}
