#pragma once
// Calls of one-sided operations on streams of CUDA.
#include <cstdint>

#include "fake_cuda/fake_gpu.h"
#include "gpu_ranks.h"

inline horingResult_t put(const int32_t* data, size_t count, int peer, horingWindow_t window, size_t element,
                          horingComm_t comm, const horing::test::GpuStream& stream) {
  return horingPutSignal(data, count, horingInt32, peer, window, element * sizeof(int32_t), 0, 0, 0, comm,
                         stream.get());
}
inline horingResult_t signal(int peer, horingComm_t comm, const horing::test::GpuStream& stream) {
  return horingSignal(peer, 0, 0, 0, comm, stream.get());
}
inline horingResult_t await(int peer, int signals, horingComm_t comm, void* stream) {
  horingWaitSignalDesc_t wait = {signals, peer, 0, 0};
  return horingWaitSignal(1, &wait, comm, stream);
}
inline void meet(horingComm_t comm) {
  int32_t one = 1;
  EXPECT_HORING(horingAllReduce(&one, &one, 1, horingInt32, horingSum, comm, nullptr));
}
