#include "capi/streams.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "capi/handle.h"

namespace horing {

namespace {

// Tells our streams from anything else that a caller may pass.
struct StreamList {
  std::mutex mutex;
  std::vector<std::unique_ptr<Stream>> streams;
};
StreamList& streamList() {
  static auto* list = new StreamList;  // never destroyed: calls may come while the program ends
  return *list;
}

auto find(StreamList& list, horingStream_t stream) {
  return std::find_if(list.streams.begin(), list.streams.end(),
                      [&](const std::unique_ptr<Stream>& ours) { return ours.get() == stream; });
}

Result<Stream*> findOwn(horingStream_t stream) {
  if (!stream)
    return makeStatus(Code::kInvalidArgument, "stream is NULL: expected one from horingStreamCreate");
  return findStream(stream);
}

}  // namespace

Result<Stream*> findStream(horingStream_t stream) {
  if (!stream) return nullptr;
  StreamList& list = streamList();
  const std::lock_guard lock(list.mutex);
  if (const auto found = find(list, stream); found != list.streams.end()) return found->get();
  return makeStatus(
      Code::kInvalidUsage,
      "stream is %p: expected NULL (complete on return) or one from horingStreamCreate that was not "
      "destroyed; streams of CUDA order work on device memory only",
      stream);
}

}  // namespace horing

extern "C" {

horingResult_t horingStreamCreate(horingStream_t* stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    if (!stream)
      return makeStatus(Code::kInvalidArgument, "stream is NULL: expected where to put the stream");
    auto made = std::make_unique<Stream>();
    Stream* const handle = made.get();
    StreamList& list = streamList();
    const std::lock_guard lock(list.mutex);
    list.streams.push_back(std::move(made));
    *stream = handle;
    return {};
  });
}

horingResult_t horingStreamDestroy(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(Stream* const own, findOwn(stream));
    const Status status = own->synchronize();
    StreamList& list = streamList();
    const std::lock_guard lock(list.mutex);
    if (const auto found = find(list, stream); found != list.streams.end()) list.streams.erase(found);
    return status;
  });
}

horingResult_t horingStreamSynchronize(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(Stream* const own, findOwn(stream));
    return own->synchronize();
  });
}

horingResult_t horingStreamQuery(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(Stream* const own, findOwn(stream));
    return own->idle() ? own->synchronize()
                       : Status(Code::kInProgress, "operations on the stream are not complete yet");
  });
}

horingResult_t horingStreamAddCallback(horingStream_t stream, horingStreamCallback_t callback,
                                       void* userData) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(Stream* const own, findOwn(stream));
    if (!callback) return makeStatus(Code::kInvalidArgument, "callback is NULL: expected a function");
    own->callBack([=](const Status& status) { callback(stream, report(status, nullptr), userData); });
    return {};
  });
}

}  // extern "C"
