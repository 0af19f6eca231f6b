#pragma once
// A CUDA driver for tests: a library with the driver's name, without a GPU, that does what horing needs. It has four GPUs, whose
// memory crashes all accesses except the driver's and kernels', and whose streams are threads.
#include <dlfcn.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "fake_kernels.h"

namespace horing::test {

// HORING_FAKE_CUDA: where the library is, which has the SONAME libcuda.so.1. With HORING_TESTS_ON_GPU in the environment it is the
// machine's own driver instead, and real GPUs: then nothing can be made to fail.
class FakeCuda {
 public:
  FakeCuda() : library_(::dlopen(isReal() ? "libcuda.so.1" : HORING_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)) {
    if (!isReal()) return;
    gpus_ = 0;
    if (library_ && call<int(unsigned int)>("cuInit")(0) == 0) call<int(int*)>("cuDeviceGetCount")(&gpus_);
  }
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  ~FakeCuda() {
    if (library_) ::dlclose(library_);
  }

  static bool isReal() { return std::getenv("HORING_TESTS_ON_GPU") != nullptr; }
  bool loaded() const { return library_ != nullptr; }
  int gpus() const { return gpus_; }
  // From now on the driver knows only [begin, begin + bytes), besides its own allocations: memory of `device`, or managed.
  void setDeviceMemory(const void* begin, size_t bytes, int device) const { mark(begin, bytes, device, 0); }
  void setManagedMemory(const void* begin, size_t bytes, int device) const { mark(begin, bytes, device, 1); }
  // After `successes` good ones `failures` calls of this function (cuda.h's name without a version) return `error`; null: none does.
  void fail(const char* function, int error, int successes = 0, int failures = INT_MAX) const {
    if (!isReal())
      call<void(const char*, int, int, int)>("fakeCudaFail")(function, error, successes, failures);
  }

  // Modules have these kernels, which must stay; without, every image is invalid.
  void setKernels(const fake::Kernels* kernels) const {
    if (!isReal()) call<void(const fake::Kernels*)>("fakeCudaSetKernels")(kernels);
  }

  // Calls that copy do not return before that is set, as if the driver had a lock until then. Null: they do.
  void holdCopies(const std::atomic<bool>* until) const {
    if (!isReal()) call<void(const std::atomic<bool>*)>("fakeCudaHold")(until);
  }
  // From now on each copy by cuMemcpyAsync takes this long, including copies in progress.
  void slowCopies(int64_t us) const {
    if (!isReal()) call<void(int64_t)>("fakeCudaSlow")(us);
  }
  // From now on each call of cuMemHostAlloc calls this, on its thread. Null: none does.
  void watchPins(void (*watch)()) const {
    if (!isReal()) call<void(void (*)())>("fakeCudaWatchPins")(watch);
  }
  // A context that a program has made for that GPU besides the primary one, or a green one.
  void* context(int device, bool is_green) const {
    return call<void*(int, bool)>("fakeCudaContext")(device, is_green);
  }
  // From now on calls that free memory or unload kernels wait for kernels, as a driver may (see awaitKernels()); or these and calls
  // that allocate memory; or none.
  enum Waits : int { kNone = 0, kFrees = 1, kAllocations = 2 };
  void waitForKernels(Waits waits) const {
    if (!isReal()) call<void(int)>("fakeCudaWaitForKernels")(waits);
  }
  // Kernels that run on it now.
  int running(int device) const { return call<int(int)>("fakeCudaRunning")(device); }
  // How often a function was called that can be made to fail.
  int calls(const char* function) const { return call<int(const char*)>("fakeCudaCalls")(function); }

  // Kernels that were launched so far.
  int launches() const { return call<int()>("fakeCudaLaunches")(); }

  // The first dimension of the grid of the last one: lanes.
  int columns() const { return call<int()>("fakeCudaColumns")(); }
  // And the second: parts.
  int rows() const { return call<int()>("fakeCudaRows")(); }

  // The host address of GPU memory, for fake adapters: of a GPU's memory elsewhere.
  std::byte* dataAt(const void* address) const {
    return call<std::byte*(const void*)>("fakeCudaDataAt")(address);
  }
  // Of what adapters wrote, so far.
  int flushes() const { return call<int()>("fakeCudaFlushes")(); }
  // Whether GPUs find it without (they do not).
  void orderWrites(bool orders) const { call<void(bool)>("fakeCudaOrder")(orders); }

  // Streams, events, modules and pieces of memory that were made and not given back.
  int live() const { return call<int()>("fakeCudaLive")(); }

  // A function of the driver: call<int(unsigned int)>("cuInit")(0).
  template <typename Function>
  Function* call(const char* symbol) const {
    return reinterpret_cast<Function*>(::dlsym(library_, symbol));
  }

 private:
  void mark(const void* begin, size_t bytes, int device, unsigned int is_managed) const {
    call<void(const void*, size_t, int, unsigned int)>("fakeCudaMark")(begin, bytes, device, is_managed);
  }
  void* library_;
  int gpus_ = 4;
};

}  // namespace horing::test
