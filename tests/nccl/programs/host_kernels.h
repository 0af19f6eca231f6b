#pragma once
// Kernels of programs that are compiled for the CPU: programs_test.py turns `kernel<<<...>>>(...)` into onHost(kernel, ...)(...), and
// where a program takes a kernel's address for cudaLaunchKernel, into hostKernel(kernel). Kernels must not wait for each other.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <utility>

#define __launch_bounds__(...)
using std::max, std::min;

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

// host_runtime.cpp: runs `work` in the order of the stream; remembers how cudaLaunchKernel takes a kernel's arguments.
using HostBind = std::function<void()> (*)(const void* kernel, void** arguments);
void hostEnqueue(cudaStream_t stream, std::function<void()> work);
const void* hostRegister(const void* kernel, HostBind bind);

inline void onEveryThread(dim3 grid, dim3 block, const std::function<void()>& body) {
  gridDim = grid;
  blockDim = block;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) body();
}

template <typename... Parameters>
auto onHost(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t = 0, cudaStream_t stream = nullptr) {
  return [=](Parameters... arguments) {
    hostEnqueue(stream, [=] { onEveryThread(grid, block, [&] { kernel(arguments...); }); });
  };
}

template <typename... Parameters, size_t... At>
std::function<void()> bindKernel(const void* kernel, void** arguments, std::index_sequence<At...>) {
  const auto called = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel));
  return std::bind(called, *static_cast<std::decay_t<Parameters>*>(arguments[At])...);
}
template <typename... Parameters>
const void* hostKernel(void (*kernel)(Parameters...)) {
  return hostRegister(reinterpret_cast<const void*>(kernel), [](const void* called, void** arguments) {
    return bindKernel<Parameters...>(called, arguments, std::index_sequence_for<Parameters...>());
  });
}

template <typename T>
T atomicAdd(T* sum, T value) {
  return std::atomic_ref<T>(*sum).fetch_add(value);
}
