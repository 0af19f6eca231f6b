// A torch device whose memory and streams are those of the emulated driver (tests/cuda/fake_cuda): memory that crashes every access of the
// host, and streams that run what is put on them in order, on threads of their own. Copies between tensors are asynchronous, as kernels
// are; all other operations of torch wait for the current stream and run on the CPU. Memory of a tensor that is gone is reused at once by
// the next one of its size and stream, unless record_stream() names other streams, as the allocator of CUDA does. Of horing's kernels there
// is the one for elements, which PaRO has need of.
//
// One library with the driver, under the driver's name, by which horing finds it.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/cuda/element_kernel.h"
#include "engine/cuda/element_run.h"
#include "fake_cuda/fake_kernels.h"

extern "C" char* fakeCudaDataAt(const void* address);
extern "C" void fakeCudaSetKernels(const horing::fake::Kernels* kernels);

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 4;
constexpr c10::StreamId kStreams = 32;  // that torch gives out in turn, and the default one, 0
constexpr auto kNap = std::chrono::microseconds(50);

template <typename... Arguments>
int call(const char* name, Arguments... arguments) {
  thread_local std::map<const char*, void*> found;  // by the literal
  void*& function = found[name];
  if (!function) function = ::dlsym(RTLD_DEFAULT, name);
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}
template <typename... Arguments>
void check(const char* name, Arguments... arguments) {
  const int result = call(name, arguments...);
  TORCH_CHECK(result == 0, name, " failed with ", result);
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_streams{};
thread_local void* entered = nullptr;

// Makes the device's context current on this thread.
void enter(c10::DeviceIndex device) {
  void* context = nullptr;
  check("cuDevicePrimaryCtxRetain", &context, static_cast<int>(device));
  if (context == entered) return;
  if (entered) check("cuCtxPopCurrent_v2", &entered);
  check("cuCtxPushCurrent_v2", context);
  entered = context;
}

// Afterwards the context of torch's current device is current again, as on CUDA.
struct Entered {
  explicit Entered(c10::DeviceIndex device) { enter(device); }
  ~Entered() { enter(current_device); }
};

// The device that was current before.
c10::DeviceIndex makeCurrent(c10::DeviceIndex device) {
  enter(device);
  return std::exchange(current_device, device);
}

void* streamOf(c10::DeviceIndex device, c10::StreamId id) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, c10::StreamId>, void*> made;
  enter(device);
  if (id == 0) return nullptr;
  const std::lock_guard lock(mutex);
  void*& stream = made[{device, id}];
  if (!stream) check("cuStreamCreate", &stream, 1U);  // not ordered with the default one
  return stream;
}
void* streamOf(const c10::Stream& stream) {
  return streamOf(stream.device_index(), stream.id());
}
void* currentStream(c10::DeviceIndex device) {
  return streamOf(device, current_streams[device]);
}

void put(void* stream, std::function<void()> work) {
  const auto run = [](void* data) {
    const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(data));
    (*own)();
  };
  void (*const function)(void*) = run;
  check("cuLaunchHostFunc", stream, function, static_cast<void*>(new std::function<void()>(std::move(work))));
  enter(current_device);
}

// ---- Kernels of horing ----

size_t parameterBytes(const char* name) {
  return std::string_view(name) == horing::cuda::kElementKernel ? sizeof(horing::cuda::ElementCall) : 0;
}
void runElements(const char*, const void* parameter, const horing::fake::Grid& grid) {
  const auto& call = *static_cast<const horing::cuda::ElementCall*>(parameter);
  const auto threads = static_cast<uint64_t>(grid.x) * horing::cuda::kElementThreads;
  for (uint64_t thread = 0; thread < threads; ++thread) horing::cuda::ElementRun(call, thread, threads).run();
}
constexpr horing::fake::Kernels kKernels = {parameterBytes, runElements};

// ---- Memory ----

class Memory : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(kType, current_device);
    if (bytes == 0) return {nullptr, nullptr, &Memory::free, device};
    const Kind kind{current_device, current_streams[current_device], (bytes + 511) / 512 * 512};
    const std::lock_guard lock(mutex_);
    collect();
    auto& idle = idle_[kind];
    void* data = nullptr;
    if (idle.empty()) {
      data = ofDriver(std::get<size_t>(kind));
    } else {
      data = idle.back();
      idle.pop_back();
    }
    used_[data] = {kind, {}};
    return {data, data, &Memory::free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Memory::free; }
  void copy_data(void*, const void*, size_t) const override { TORCH_CHECK(false, "not on the host"); }

  void recordStream(void* data, const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (const auto found = used_.find(data);
        found != used_.end() && std::get<1>(found->second.kind) != stream.id())
      found->second.streams.insert(stream.id());
  }

  static Memory& get() {
    static Memory* const memory = new Memory;
    return *memory;
  }

 private:
  using Kind = std::tuple<c10::DeviceIndex, c10::StreamId, size_t>;
  struct Use {
    Kind kind;
    std::set<c10::StreamId> streams;
  };
  struct Leaving {
    void* data;
    Kind kind;
    std::vector<void*> events;
  };

  // Under the lock. Small ones are parts of one piece, as the allocator of CUDA has them: each kernel that begins or ends makes the
  // driver visit every piece.
  void* ofDriver(size_t bytes) {
    constexpr size_t kPiece = size_t{1} << 20;
    enter(current_device);
    if (bytes > kPiece / 4) return pieceOf(bytes);
    auto& [at, left] = begun_[current_device];
    if (left < bytes) std::tie(at, left) = std::pair(pieceOf(kPiece), kPiece);
    left -= bytes;
    return std::exchange(at, at + bytes);
  }
  static char* pieceOf(size_t bytes) {
    unsigned long long at = 0;
    check("cuMemAlloc_v2", &at, bytes);
    return reinterpret_cast<char*>(at);
  }
  static void free(void* data) {
    if (data) get().giveBack(data);
  }
  void giveBack(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    Leaving leaving{data, found->second.kind, {}};
    const Entered there(std::get<0>(leaving.kind));
    for (const c10::StreamId id : found->second.streams) {
      void* const stream = streamOf(std::get<0>(leaving.kind), id);
      check("cuEventCreate", &leaving.events.emplace_back(), 2U);
      check("cuEventRecord", leaving.events.back(), stream);
    }
    used_.erase(found);
    leaving_.push_back(std::move(leaving));
    collect();
  }
  // Under the lock.
  void collect() {
    std::erase_if(leaving_, [this](const Leaving& each) {
      const Entered there(std::get<0>(each.kind));
      for (void* const event : each.events)
        if (call("cuEventQuery", event) != 0) return false;
      for (void* const event : each.events) check("cuEventDestroy_v2", event);
      idle_[each.kind].push_back(each.data);
      return true;
    });
  }

  std::mutex mutex_;
  std::map<Kind, std::vector<void*>> idle_;
  std::map<void*, Use> used_;
  std::vector<Leaving> leaving_;
  std::array<std::pair<char*, size_t>, kDevices> begun_{};  // pieces: where unused memory begins, and how much is left
};

// Of the host. Pages stay with the process.
class PinnedMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    enter(current_device);
    if (bytes > 0) check("cuMemHostAlloc", &data, bytes, 1U);
    const std::lock_guard lock(mutex_);
    begins_[data] = bytes;
    return {data, data, [](void*) {}, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void*) {};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool has(const void* data) {
    const std::lock_guard lock(mutex_);
    const auto next = begins_.upper_bound(data);
    if (next == begins_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(next);
    return static_cast<const char*>(data) < static_cast<const char*>(begin) + bytes;
  }
  static PinnedMemory& get() {
    static PinnedMemory* const memory = new PinnedMemory;
    return *memory;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, size_t> begins_;
};

// ---- What torch asks of a device ----

struct Guard : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, makeCurrent(device.index())};
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { makeCurrent(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { makeCurrent(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    const auto index = indexOf(device);
    return make(index, current_streams[index]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return make(indexOf(device), 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::atomic<c10::StreamId> given = 0;
    return make(indexOf(device), given++ % kStreams + 1);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return make(stream.device_index(), std::exchange(current_streams[stream.device_index()], stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    const Entered there(stream.device_index());
    return call("cuStreamQuery", streamOf(stream)) == 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const Entered there(stream.device_index());
    check("cuStreamSynchronize", streamOf(stream));
  }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    const Entered there(stream.device_index());
    int status = 0;
    check("cuStreamIsCapturing", streamOf(stream), &status);
    return status != 0;
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    const Entered there(device);
    for (c10::StreamId id = 0; id <= kStreams; ++id) check("cuStreamSynchronize", streamOf(device, id));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    const Entered there(stream.device_index());
    void* const on = streamOf(stream);
    if (!*event) check("cuEventCreate", event, 2U);
    check("cuEventRecord", *event, on);
  }
  void block(void* event, const c10::Stream& stream) const override {
    const Entered there(stream.device_index());
    if (event) check("cuStreamWaitEvent", streamOf(stream), event, 0U);
  }
  bool queryEvent(void* event) const override {
    enter(current_device);
    const int result = event ? call("cuEventQuery", event) : 0;
    TORCH_CHECK(result == 0 || result == 600, "cuEventQuery failed with ", result);
    return result == 0;
  }
  void synchronizeEvent(void* event) const override {
    while (!queryEvent(event)) std::this_thread::sleep_for(kNap);
  }
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override {
    const Entered there(device);
    if (event) call("cuEventDestroy_v2", event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    Memory::get().recordStream(data.get(), stream);
  }

 private:
  static c10::DeviceIndex indexOf(c10::Device device) {
    return device.has_index() ? device.index() : current_device;
  }
  static c10::Stream make(c10::DeviceIndex device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {kType, device}, id);
  }
};

struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(c10::DeviceIndex device) const override { makeCurrent(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return makeCurrent(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    return generator;
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::get(); }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::get().has(data); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override;
};

// ---- Operations ----

// The same memory, where the host reaches it: for what runs on streams.
at::Tensor reached(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor.detach();
  at::Tensor alias = at::from_blob(fakeCudaDataAt(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                                   at::TensorOptions().dtype(tensor.scalar_type()));
  alias._set_conj(tensor.is_conj());
  alias._set_neg(tensor.is_neg());
  return alias;
}

void synchronizeCurrent(c10::DeviceIndex device) {
  const Entered there(device);
  check("cuStreamSynchronize", currentStream(device));
}

at::Tensor copyFrom(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0) return target;
  const bool crosses = !self.is_privateuseone() || !target.is_privateuseone();
  const auto device = (target.is_privateuseone() ? target : self).device().index();
  const auto copy = [from = reached(self), to = reached(target)] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    to.copy_(from);
  };
  if (crosses && !non_blocking) {  // here, where its end is waited for: most operations begin and end with such copies
    synchronizeCurrent(device);
    copy();
  } else {
    put(currentStream(device), copy);
  }
  return target;
}

at::Tensor copyFromAndResize(const at::Tensor& self, const at::Tensor& target) {
  target.resize_(self.sizes());
  return copyFrom(self, target, false);
}

at::Scalar localScalarDense(const at::Tensor& self) {
  at::Tensor own = at::empty(self.sizes(), self.options().device(at::kCPU));
  copyFrom(self, own, false);
  return own.item();
}

at::Tensor emptyMemoryFormat(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                             std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device && device->has_index() ? *device : c10::Device(kType, current_device));
  return at::detail::empty_generic(size, &Memory::get(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor emptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device && device->has_index() ? *device : c10::Device(kType, current_device));
  return at::detail::empty_strided_generic(size, stride, &Memory::get(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

using Sizes = c10::IntArrayRef;

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       Sizes stride, Sizes padding, Sizes dilation, bool transposed, Sizes output_padding,
                       int64_t groups) {
  const std::optional<at::Tensor> own = bias ? std::optional(bias->cpu()) : bias;
  return at::convolution(input.cpu(), weight.cpu(), own, stride, padding, dilation, transposed, output_padding,
                         groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, Sizes stride, Sizes padding,
    Sizes dilation, bool transposed, Sizes output_padding, int64_t groups, std::array<bool, 3> wanted) {
  auto [of_input, of_weight, of_bias] =
      at::convolution_backward(gradient.cpu(), input.cpu(), weight.cpu(), Sizes{gradient.size(1)}, stride,
                               padding, dilation, transposed, output_padding, groups, wanted);
  for (at::Tensor* const each : {&of_input, &of_weight, &of_bias})
    if (each->defined()) *each = each->to(input.device());
  return {of_input, of_weight, of_bias};
}

void recordStream(at::Tensor& self, c10::Stream stream) {
  Memory::get().recordStream(self.storage().data_ptr().get(), stream);
}

void onHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

void Hooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const {
  const c10::DeviceGuard guard(storage.device());
  const size_t kept = std::min(bytes, storage.nbytes());
  c10::DataPtr larger = Memory::get().allocate(bytes);
  if (kept > 0)
    check("cuMemcpyAsync", reinterpret_cast<unsigned long long>(larger.get()),
          reinterpret_cast<unsigned long long>(storage.data_ptr().get()), kept,
          currentStream(storage.device().index()));
  const_cast<c10::Storage&>(storage).set_data_ptr_noswap(std::move(larger));
  const_cast<c10::Storage&>(storage).set_nbytes(bytes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", emptyMemoryFormat);
  library.impl("empty_strided", emptyStrided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("view_as_real", at::native::view_as_real);
  library.impl("view_as_complex", at::native::view_as_complex);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("resize_", at::native::resize_);
  library.impl("set_.source_Tensor", at::native::set_tensor_);
  library.impl("set_.source_Storage", at::native::set_);
  library.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  library.impl("_copy_from", copyFrom);
  library.impl("_copy_from_and_resize", copyFromAndResize);
  library.impl("_local_scalar_dense", localScalarDense);
  library.impl("record_stream", recordStream);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolutionBackward);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&onHost>());
}
// Copies resolve these views themselves.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
const struct Registration {
  Registration() {
    c10::SetAllocator(kType, &Memory::get());
    at::RegisterPrivateUse1HooksInterface(new Hooks);
  }
} registration;

}  // namespace

#define FOR_PYTHON extern "C" __attribute__((visibility("default")))

FOR_PYTHON void emulatedLoadKernels() {
  fakeCudaSetKernels(&kKernels);
}
// A cudaStream_t.
FOR_PYTHON void* emulatedStream(int device, int64_t id) {
  const Entered there(static_cast<c10::DeviceIndex>(device));
  return streamOf(static_cast<c10::DeviceIndex>(device), id);
}
// The stream waits until *gate is not 0.
FOR_PYTHON void emulatedHold(int device, int64_t id, const std::atomic<int>* gate) {
  put(streamOf(static_cast<c10::DeviceIndex>(device), id), [gate] {
    while (gate->load() == 0) std::this_thread::sleep_for(kNap);
  });
}
