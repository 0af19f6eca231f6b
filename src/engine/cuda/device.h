#pragma once
// Device primitives for kernels, with host versions: tests build the same code with a C++ compiler and run it with host threads.
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HORING_DEVICE __device__
#define HORING_UNROLL _Pragma("unroll")
// For loops with mostly one or two iterations: unrolling would only add code.
#define HORING_ROLLED _Pragma("unroll 1")
#else
#define HORING_DEVICE
#define HORING_UNROLL
#define HORING_ROLLED
#endif

namespace horing::cuda {

// Marks a pointer as not in shared memory. Otherwise, if a kernel has loaded the address from memory, each access through it waits for
// earlier accesses to shared memory, and the other way round.
template <class T>
HORING_DEVICE inline T* inGlobal(T* at) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(static_cast<const void*>(at)));
#endif
  return at;
}

// Counters that one end advances and the other polls: in memory of this GPU, of a peer, or in pinned memory. Acquire here pairs with
// storeRelease(), or storeFenced(), by the end that owns the counter. A block's threads that meet at a barrier before one of them releases,
// or after one has acquired, are ordered with it (causality order of the PTX memory model).
HORING_DEVICE inline uint64_t loadAcquire(const uint64_t* counter) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
  return value;
#else
  return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
#endif
}

HORING_DEVICE inline void storeRelease(uint64_t* counter, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
#else
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
#endif
}

// One fence for several counters, since the fence is most of a release's cost (0.6 us on an H200). Writes before releaseFence(), by this
// thread and by threads that it met at a barrier, are visible to whoever acquires a value that it stores by storeFenced() afterwards. On
// the host, each store is a release.
HORING_DEVICE inline void releaseFence() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

// The same at GPU scope: 0.25 us on an H200.
HORING_DEVICE inline void releaseFenceOfGpu() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#endif
}

HORING_DEVICE inline void storeFenced(uint64_t* counter, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
#else
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
#endif
}

// A flag in host memory that ends the kernels of all ranks. loadFlagAcquire(), for the host only, sees what was written before the flag was
// set.
HORING_DEVICE inline uint32_t loadFlag(const uint32_t* flag) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
#else
  return __atomic_load_n(flag, __ATOMIC_RELAXED);
#endif
}

HORING_DEVICE inline void storeFlag(uint32_t* flag, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#endif
}
inline uint32_t loadFlagAcquire(const uint32_t* flag) {
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

// Sets a flag in a block's shared memory. Any thread may do so before the barrier after which all threads read it.
HORING_DEVICE inline void raiseFlag(bool* flag) {
#ifdef __CUDA_ARCH__
  *flag = true;
#else
  __atomic_store_n(flag, true, __ATOMIC_RELAXED);
#endif
}

// Sets `flag`, in memory of this GPU; true for the first thread that does.
HORING_DEVICE inline bool claim(uint32_t* flag) {
#ifdef __CUDA_ARCH__
  return atomicExch(flag, 1u) == 0;
#else
  return __atomic_exchange_n(flag, 1u, __ATOMIC_RELAXED) == 0;
#endif
}

// The unit of one load or store.
struct alignas(16) Pack {
  uint32_t words[4];
};

HORING_DEVICE inline Pack loadPack(const std::byte* from) {
#ifdef __CUDA_ARCH__
  const uint4 value = *reinterpret_cast<const uint4*>(inGlobal(from));
  return {{value.x, value.y, value.z, value.w}};
#else
  Pack pack;
  std::memcpy(&pack, __builtin_assume_aligned(from, alignof(Pack)), sizeof pack);
  return pack;
#endif
}

HORING_DEVICE inline void storePack(std::byte* to, const Pack& pack) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<uint4*>(inGlobal(to)) =
      make_uint4(pack.words[0], pack.words[1], pack.words[2], pack.words[3]);
#else
  std::memcpy(__builtin_assume_aligned(to, alignof(Pack)), &pack, sizeof pack);
#endif
}

template <class To, class From>
HORING_DEVICE inline To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace horing::cuda
