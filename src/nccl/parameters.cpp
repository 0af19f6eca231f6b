// ncclParam...: access to the known variables by name.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/thread_object.h"
#include "nccl/face.h"
#include "nccl/variables.h"

struct ncclParamHandle {
  std::string name;
};

using namespace horing::nccl;

namespace {

// Never destroyed: handles stay valid.
struct Parameters {
  std::vector<ncclParamHandle> all;
  std::vector<const char*> names;
};
const Parameters& parameters() {
  static const auto* const kept = [] {
    auto* const made = new Parameters;
    const auto add = [&](const char* name) {
      const bool known = std::any_of(made->all.begin(), made->all.end(),
                                     [&](const ncclParamHandle& other) { return other.name == name; });
      if (!known) made->all.push_back({name});
    };
    for (const Mapping& mapping : mappings())
      for (const char* const name : mapping.from) add(name);
    for (const char* const name : ownVariables()) add(name);
    for (const ncclParamHandle& each : made->all) made->names.push_back(each.name.c_str());
    return made;
  }();
  return *kept;
}

const ncclParamHandle* handleOf(const char* key) {
  for (const ncclParamHandle& each : parameters().all)
    if (key && each.name == key) return &each;
  return nullptr;
}

ncclResult_t unknown(const char* key) {
  return refuse(ncclInvalidArgument, "'%.100s' is no parameter: ncclParamGetAllParameterKeys lists all",
                key ? key : "NULL");
}

struct KeptText {
  std::string text;
};

// The text; valid until the thread's next call.
ncclResult_t textOf(const ncclParamHandle* handle, const std::string** text) {
  const auto& all = parameters().all;
  const bool known = std::any_of(all.begin(), all.end(), [&](const auto& each) { return &each == handle; });
  if (!known) return refuse(ncclInvalidArgument, "h is no handle of ncclParamBind");
  const std::optional<std::string> value = findValue(handle->name);
  if (!value) return refuse(ncclInvalidArgument, "%s is not set", handle->name.c_str());
  std::string& kept = horing::ThreadObject<KeptText>::get().text;
  kept = *value;
  *text = &kept;
  return ncclSuccess;
}

template <typename Number>
ncclResult_t numberOf(const ncclParamHandle* handle, Number* out) {
  const std::string* text = nullptr;
  if (!out) return refuse(ncclInvalidArgument, "out is NULL: expected where to put the value");
  if (const ncclResult_t found = textOf(handle, &text); found != ncclSuccess) return found;
  using Widest = std::conditional_t<std::is_signed_v<Number>, intmax_t, uintmax_t>;
  char* end = nullptr;
  errno = 0;
  Widest value = 0;
  if constexpr (std::is_signed_v<Number>)
    value = std::strtoimax(text->c_str(), &end, 0);
  else
    value = std::strtoumax(text->c_str(), &end, 0);
  const bool negative = std::is_unsigned_v<Number> && text->find('-') != std::string::npos;
  if (errno != 0 || end == text->c_str() || *end || negative || value < std::numeric_limits<Number>::min() ||
      value > std::numeric_limits<Number>::max())
    return refuse(ncclInvalidArgument, "%s=%.100s is no number of %zu bytes", handle->name.c_str(),
                  text->c_str(), sizeof(Number));
  *out = static_cast<Number>(value);
  return ncclSuccess;
}

// No exception leaves the library.
template <typename Body>
ncclResult_t guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return refuse(ncclSystemError, "no memory for a parameter");
  }
}

}  // namespace

NCCL_FACE(ncclResult_t, ParamBind, (ncclParamHandle_t * out, const char* key)) {
  return guarded([&] {
    if (!out) return refuse(ncclInvalidArgument, "out is NULL: expected where to put the handle");
    const ncclParamHandle* const handle = handleOf(key);
    if (!handle) return unknown(key);
    *out = const_cast<ncclParamHandle_t>(handle);
    return ncclSuccess;
  });
}

#define NUMBER_OF(name, type)                                        \
  NCCL_FACE(ncclResult_t, name, (ncclParamHandle_t h, type * out)) { \
    return guarded([&] { return numberOf(h, out); });                \
  }
NUMBER_OF(ParamGetI8, int8_t)
NUMBER_OF(ParamGetI16, int16_t)
NUMBER_OF(ParamGetI32, int32_t)
NUMBER_OF(ParamGetI64, int64_t)
NUMBER_OF(ParamGetU8, uint8_t)
NUMBER_OF(ParamGetU16, uint16_t)
NUMBER_OF(ParamGetU32, uint32_t)
NUMBER_OF(ParamGetU64, uint64_t)
#undef NUMBER_OF

NCCL_FACE(ncclResult_t, ParamGetStr, (ncclParamHandle_t h, const char** out)) {
  return guarded([&] {
    const std::string* text = nullptr;
    if (!out) return refuse(ncclInvalidArgument, "out is NULL: expected where to put the text");
    const ncclResult_t found = textOf(h, &text);
    if (found == ncclSuccess) *out = text->c_str();
    return found;
  });
}

NCCL_FACE(ncclResult_t, ParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len)) {
  return guarded([&] {
    const std::string* text = nullptr;
    if (!out || !len)
      return refuse(ncclInvalidArgument, "out or len is NULL: expected where to put the text");
    if (const ncclResult_t found = textOf(h, &text); found != ncclSuccess) return found;
    if (maxLen <= 0 || text->size() >= static_cast<size_t>(maxLen))
      return refuse(ncclInvalidArgument, "maxLen is %d: %s has %zu bytes and a closing 0", maxLen,
                    h->name.c_str(), text->size());
    std::memcpy(out, text->c_str(), text->size() + 1);
    *len = static_cast<int>(text->size());
    return ncclSuccess;
  });
}

NCCL_FACE(ncclResult_t, ParamGetParameter, (const char* key, const char** value, int* valueLen)) {
  return guarded([&] {
    const std::string* text = nullptr;
    if (!value || !valueLen)
      return refuse(ncclInvalidArgument, "value or valueLen is NULL: expected where to put them");
    const ncclParamHandle* const handle = handleOf(key);
    if (!handle) return unknown(key);
    if (const ncclResult_t found = textOf(handle, &text); found != ncclSuccess) return found;
    *value = text->c_str();
    *valueLen = static_cast<int>(text->size());
    return ncclSuccess;
  });
}

NCCL_FACE(ncclResult_t, ParamGetAllParameterKeys, (const char*** table, int* tableLen)) {
  return guarded([&] {
    if (!table || !tableLen)
      return refuse(ncclInvalidArgument, "table or tableLen is NULL: expected where to put them");
    *table = const_cast<const char**>(parameters().names.data());
    *tableLen = static_cast<int>(parameters().names.size());
    return ncclSuccess;
  });
}

NCCL_FACE(void, ParamDumpAll, (void)) {
  [[maybe_unused]] const ncclResult_t dumped = guarded([] {
    for (const char* const name : parameters().names)
      if (const std::optional<std::string> value = findValue(name))
        std::printf("%s=%s\n", name, value->c_str());
    std::fflush(stdout);
    return ncclSuccess;
  });
}
