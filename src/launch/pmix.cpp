#include "launch/pmix.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace horing {

namespace {

// The declarations of the PMIx standard (versions 2 to 5, chapters 3 and 5) that are needed.
struct PmixProcess {
  char name_space[256];
  uint32_t rank;
};
struct PmixValue {
  uint16_t type;
  union {
    char* string;
    std::array<std::byte, 24> widest;
  };
};
static_assert(sizeof(PmixProcess) == 260 && sizeof(PmixValue) == 32 && offsetof(PmixValue, string) == 8);
constexpr uint16_t kPmixString = 3;
constexpr uint8_t kPmixGlobal = 3;
constexpr uint32_t kPmixRankWildcard = UINT32_MAX - 1;
constexpr int kPmixSuccess = 0;
constexpr int kPmixDoneAtOnce = -157;
constexpr const char* kPmixKey = "horing.unique_id";

using OperationCallback = void (*)(int status, void* context);
using ValueCallback = void (*)(int status, PmixValue* value, void* context);

struct PmixLibrary {
  int (*init)(PmixProcess*, void*, size_t) = nullptr;
  int (*put)(uint8_t, const char*, PmixValue*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const PmixProcess*, size_t, const void*, size_t, OperationCallback, void*) = nullptr;
  int (*get)(const PmixProcess*, const char*, const void*, size_t, ValueCallback, void*) = nullptr;
  int (*finalize)(const void*, size_t) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Never unloaded, since the library has its own threads.
Result<PmixLibrary> loadPmix() {
  void* library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return makeStatus(Code::kSystemError,
                      "mpirun hands out the unique ID through PMIx, but %s: install libpmix2, or set "
                      "HORING_ROOT and HORING_KEY_FILE",
                      ::dlerror());
  PmixLibrary pmix;
  if (!find(library, "PMIx_Init", pmix.init) || !find(library, "PMIx_Put", pmix.put) ||
      !find(library, "PMIx_Commit", pmix.commit) || !find(library, "PMIx_Fence_nb", pmix.fence) ||
      !find(library, "PMIx_Get_nb", pmix.get) || !find(library, "PMIx_Finalize", pmix.finalize))
    return makeStatus(Code::kSystemError, "libpmix.so.2 lacks a function: %s", ::dlerror());
  return pmix;
}

// The result of a callback. Shared with the callback, which may run after the wait has timed out.
struct Answer {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<int> status;
  std::string text;

  void set(int with_status, std::string with_text) {
    const std::lock_guard lock(mutex);
    status = with_status;
    text = std::move(with_text);
    came.notify_all();
  }
};
using SharedAnswer = std::shared_ptr<Answer>;

void onFence(int status, void* context) {
  const std::unique_ptr<SharedAnswer> answer(static_cast<SharedAnswer*>(context));
  (*answer)->set(status, "");
}

void onValue(int status, PmixValue* value, void* context) {
  const std::unique_ptr<SharedAnswer> answer(static_cast<SharedAnswer*>(context));
  const bool is_text = status == kPmixSuccess && value && value->type == kPmixString && value->string;
  (*answer)->set(status, is_text ? value->string : "");
}

Status failed(const char* what, int status) {
  return makeStatus(Code::kRemoteError,
                    "PMIx could not %s (status %d); HORING_ROOT and HORING_KEY_FILE work without it", what,
                    status);
}

// Calls begin(context); waits for the callback that gets the context.
template <typename Begin>
Status await(const SharedAnswer& answer, const char* what, int64_t timeout_ms, Begin begin) {
  auto context = std::make_unique<SharedAnswer>(answer);
  const int begun = begin(context.get());
  if (begun == kPmixDoneAtOnce) return {};
  if (begun != kPmixSuccess) return failed(what, begun);
  [[maybe_unused]] const SharedAnswer* callbacks = context.release();
  std::unique_lock lock(answer->mutex);
  if (!answer->came.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                             [&] { return answer->status.has_value(); }))
    return makeStatus(Code::kTimeout, "PMIx did not %s within %lld ms: has every rank reached this point?",
                      what, static_cast<long long>(timeout_ms));
  return *answer->status == kPmixSuccess ? Status() : failed(what, *answer->status);
}

Result<std::string> exchange(const PmixLibrary& pmix, PmixProcess self, const std::string& text,
                             int64_t timeout_ms) {
  if (self.rank == 0) {
    std::string copy = text;
    PmixValue value{};
    value.type = kPmixString;
    value.string = copy.data();
    if (const int put = pmix.put(kPmixGlobal, kPmixKey, &value); put != kPmixSuccess)
      return failed("store the unique ID", put);
    if (const int done = pmix.commit(); done != kPmixSuccess) return failed("publish the unique ID", done);
  }
  PmixProcess target = self;
  target.rank = kPmixRankWildcard;
  HORING_TRY(await(std::make_shared<Answer>(), "bring all ranks together", timeout_ms,
                   [&](void* context) { return pmix.fence(&target, 1, nullptr, 0, onFence, context); }));
  target.rank = 0;
  const auto answer = std::make_shared<Answer>();
  HORING_TRY(await(answer, "read the unique ID of rank 0", timeout_ms,
                   [&](void* context) { return pmix.get(&target, kPmixKey, nullptr, 0, onValue, context); }));
  const std::lock_guard lock(answer->mutex);
  return answer->text;
}

}  // namespace

Result<std::string> broadcastOverPmix(int rank, const std::string& text, int64_t timeout_ms) {
  HORING_ASSIGN(const PmixLibrary pmix, loadPmix());
  PmixProcess self{};
  if (const int begun = pmix.init(&self, nullptr, 0); begun != kPmixSuccess)
    return failed("reach mpirun", begun);
  Result<std::string> got =
      self.rank == static_cast<uint32_t>(rank)
          ? exchange(pmix, self, text, timeout_ms)
          : makeStatus(Code::kInvalidUsage, "PMIx calls this rank %u, mpirun's environment calls it %d",
                       self.rank, rank);
  // MPI in the same process counts its own use of the library.
  const int ended = pmix.finalize(nullptr, 0);
  if (got.ok() && ended != kPmixSuccess) return failed("end in good order", ended);
  return got;
}

}  // namespace horing
