#include "cuda/api.h"

#include <dlfcn.h>

namespace horing {

Result<CudaApi> CudaApi::lookUp(void* library) {
  CudaApi api;
#define X(member, function, symbol, parameters)                                            \
  api.member = reinterpret_cast<decltype(api.member)>(::dlsym(library, symbol));           \
  if (!api.member)                                                                         \
    return makeStatus(Code::kUnhandledCudaError,                                           \
                      "the CUDA driver of this machine lacks %s: buffers on a GPU need a " \
                      "driver of CUDA 12 or later",                                        \
                      symbol);
  HORING_CUDA_API(X)
#undef X
#define X(member, function, symbol, parameters) \
  api.member = reinterpret_cast<decltype(api.member)>(::dlsym(library, symbol));
  HORING_CUDA_API_IF_THERE(X)
#undef X
  return api;
}

Status CudaApi::check(int result, const char* tried) const {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(result, &name) != kSuccess || !name) name = "an error that it does not know";
  if (error_text(result, &text) != kSuccess || !text) text = "no text";
  return makeStatus(Code::kUnhandledCudaError, "%s: the CUDA driver says %s (%d, %s)", tried, name, result,
                    text);
}

}  // namespace horing
