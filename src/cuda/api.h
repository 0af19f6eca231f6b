#pragma once
// Functions of the CUDA driver that horing calls, looked up at run time: neither the build nor the library needs a toolkit.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace horing {

// cuda.h's handles and addresses declared without a toolkit; tests/cuda compares the layouts with cuda.h if there is one.
using CudaContext = void*;
using CudaStream = void*;
// From cuda.h: the legacy default stream, and the per-thread default stream.
inline const CudaStream kStreamLegacy = reinterpret_cast<CudaStream>(0x1);
inline const CudaStream kStreamPerThread = reinterpret_cast<CudaStream>(0x2);
using CudaEvent = void*;
using CudaModule = void*;
using CudaFunction = void*;
using CudaAddress = unsigned long long;
inline CudaAddress cudaAddress(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}
using CudaUuid = std::array<std::byte, 16>;
using CudaIpcHandle = std::array<std::byte, 64>;

// X(member, "symbol", parameters); each returns a CUresult.
// clang-format off
#define HORING_CUDA_API(X) \
  X(init, cuInit, "cuInit", (unsigned int flags)) \
  X(device_count, cuDeviceGetCount, "cuDeviceGetCount", (int* count)) \
  X(retain_context, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CudaContext* context, int device)) \
  X(release_context, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device)) \
  X(push_context, cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CudaContext context)) \
  X(pop_context, cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CudaContext* context)) \
  X(current_context, cuCtxGetCurrent, "cuCtxGetCurrent", (CudaContext* context)) \
  X(context_device, cuCtxGetDevice, "cuCtxGetDevice", (int* device)) \
  X(stream_create, cuStreamCreate, "cuStreamCreate", (CudaStream* stream, unsigned int flags)) \
  X(stream_create_with_priority, cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CudaStream* stream, unsigned int flags, int priority)) \
  X(stream_destroy, cuStreamDestroy, "cuStreamDestroy_v2", (CudaStream stream)) \
  X(stream_context, cuStreamGetCtx, "cuStreamGetCtx", (CudaStream stream, CudaContext* context)) \
  X(stream_flags, cuStreamGetFlags, "cuStreamGetFlags", (CudaStream stream, unsigned int* flags)) \
  X(stream_is_capturing, cuStreamIsCapturing, "cuStreamIsCapturing", (CudaStream stream, int* status)) \
  X(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize", (CudaStream stream)) \
  X(stream_query, cuStreamQuery, "cuStreamQuery", (CudaStream stream)) \
  X(stream_wait_event, cuStreamWaitEvent, "cuStreamWaitEvent", (CudaStream stream, CudaEvent event, unsigned int flags)) \
  X(stream_write_value, cuStreamWriteValue32, "cuStreamWriteValue32_v2", (CudaStream stream, CudaAddress at, uint32_t value, unsigned int flags)) \
  X(stream_wait_value, cuStreamWaitValue32, "cuStreamWaitValue32_v2", (CudaStream stream, CudaAddress at, uint32_t value, unsigned int flags)) \
  X(event_create, cuEventCreate, "cuEventCreate", (CudaEvent* event, unsigned int flags)) \
  X(event_destroy, cuEventDestroy, "cuEventDestroy_v2", (CudaEvent event)) \
  X(event_record, cuEventRecord, "cuEventRecord", (CudaEvent event, CudaStream stream)) \
  X(event_query, cuEventQuery, "cuEventQuery", (CudaEvent event)) \
  X(memory_allocate, cuMemAlloc, "cuMemAlloc_v2", (CudaAddress* at, size_t bytes)) \
  X(memory_free, cuMemFree, "cuMemFree_v2", (CudaAddress at)) \
  X(host_allocate, cuMemHostAlloc, "cuMemHostAlloc", (void** at, size_t bytes, unsigned int flags)) \
  X(host_free, cuMemFreeHost, "cuMemFreeHost", (void* at)) \
  X(host_device_address, cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CudaAddress* address, void* at, unsigned int flags)) \
  X(copy, cuMemcpyAsync, "cuMemcpyAsync", (CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream)) \
  X(copy_to_peer, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (CudaAddress to, CudaContext to_context, CudaAddress from, CudaContext from_context, size_t bytes, CudaStream stream)) \
  X(memory_set, cuMemsetD8Async, "cuMemsetD8Async", (CudaAddress at, unsigned char value, size_t bytes, CudaStream stream)) \
  X(device_uuid, cuDeviceGetUuid, "cuDeviceGetUuid_v2", (CudaUuid* uuid, int device)) \
  X(device_attribute, cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, int device)) \
  X(can_access_peer, cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int* can, int device, int peer)) \
  X(enable_peer, cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CudaContext peer, unsigned int flags)) \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int* mode)) \
  X(module_load, cuModuleLoadData, "cuModuleLoadData", (CudaModule* module, const void* image)) \
  X(module_unload, cuModuleUnload, "cuModuleUnload", (CudaModule module)) \
  X(module_function, cuModuleGetFunction, "cuModuleGetFunction", (CudaFunction* function, CudaModule module, const char* name)) \
  X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int* blocks, CudaFunction function, int threads, size_t shared_bytes)) \
  X(launch, cuLaunchKernel, "cuLaunchKernel", (CudaFunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads, unsigned int threads_y, unsigned int threads_z, unsigned int shared_bytes, CudaStream stream, void** parameters, void** extra)) \
  X(error_name, cuGetErrorName, "cuGetErrorName", (int error, const char** name)) \
  X(error_text, cuGetErrorString, "cuGetErrorString", (int error, const char** text))
// clang-format on

// The same for functions that a driver may lack, which are then null.
// clang-format off
#define HORING_CUDA_API_IF_THERE(X) \
  X(stream_contexts, cuStreamGetCtx_v2, "cuStreamGetCtx_v2", (CudaStream stream, CudaContext* context, void** green)) \
  X(capture_info, cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v3", (CudaStream stream, int* status, uint64_t* id, void** graph, const void* const** dependencies, const void** edges, size_t* dependency_count)) \
  X(event_record_with_flags, cuEventRecordWithFlags, "cuEventRecordWithFlags", (CudaEvent event, CudaStream stream, unsigned int flags)) \
  X(range_handle, cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", (void* handle, CudaAddress at, size_t bytes, int type, unsigned long long flags)) \
  X(ipc_handle, cuIpcGetMemHandle, "cuIpcGetMemHandle", (CudaIpcHandle* handle, CudaAddress at)) \
  X(ipc_open, cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CudaAddress* at, CudaIpcHandle handle, unsigned int flags)) \
  X(ipc_close, cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (CudaAddress at)) \
  X(address_range, cuMemGetAddressRange, "cuMemGetAddressRange_v2", (CudaAddress* begin, size_t* bytes, CudaAddress at)) \
  X(flush_remote_writes, cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites", (int target, int scope))
// clang-format on

// A table of pointers into a library that must stay loaded. A value; any thread.
struct CudaApi {
#define X(member, function, symbol, parameters) int(*member) parameters = nullptr;
  HORING_CUDA_API(X)
  HORING_CUDA_API_IF_THERE(X)
#undef X

  static constexpr int kSuccess = 0;
  static constexpr int kNotReady = 600;
  static constexpr unsigned int kEventWithoutTime = 2;

  // kUnhandledCudaError names the function that this driver lacks.
  static Result<CudaApi> lookUp(void* library);
  // Ok, or kUnhandledCudaError with the attempted action and the driver's error text.
  Status check(int result, const char* tried) const;
};

}  // namespace horing
