#include "nccl/call_options.h"

#include <string_view>

#include "base/config.h"

namespace horing::nccl {

namespace {

// More is a list whose end points back into it.
constexpr int kMostOptions = 1024;

ncclResult_t readTimeout(const ncclConfigExt_t& option, CallOptions& options) {
  const auto [least, most] = rangeOf("HORING_TIMEOUT_MS");
  if (option.val.i < least || option.val.i > most)
    return refuse(ncclInvalidArgument, "config.ext: NCCL_HORING_TIMEOUT_MS is %d: expected %lld to %lld",
                  option.val.i, static_cast<long long>(least), static_cast<long long>(most));
  options.timeout_ms = option.val.i;
  return ncclSuccess;
}

ncclResult_t readReproducible(const ncclConfigExt_t& option, CallOptions& options) {
  if (option.val.i != 0 && option.val.i != 1)
    return refuse(ncclInvalidArgument, "config.ext: NCCL_HORING_REPRODUCIBLE is %d: expected 0 or 1",
                  option.val.i);
  options.reproducible = option.val.i == 1;
  return ncclSuccess;
}

// NULL and an empty text leave the choice to the library.
ncclResult_t readAlgorithm(const ncclConfigExt_t& option, CallOptions& options) {
  if (!option.val.s || !*option.val.s) return ncclSuccess;
  if (options.algorithm)
    return refuse(
        ncclInvalidArgument,
        "config.ext: NCCL_HORING_ALGORITHM is '%.100s', and config.algSelection is '%.100s': expected "
        "only one of them",
        option.val.s, options.algorithm);
  options.algorithm = option.val.s;
  return ncclSuccess;
}

ncclResult_t readOption(const ncclConfigExt_t& option, CallOptions& options) {
  switch (option.key.optionId) {
    case NCCL_HORING_TIMEOUT_MS:
      return readTimeout(option, options);
    case NCCL_HORING_REPRODUCIBLE:
      return readReproducible(option, options);
    case NCCL_HORING_ALGORITHM:
      return readAlgorithm(option, options);
    default:
      return refuse(ncclInvalidArgument,
                    "config.ext: option %d of vendor 0x%x is unknown: expected an NCCL_HORING_... of nccl.h",
                    option.key.optionId, static_cast<unsigned>(NCCL_VENDOR_HORING));
  }
}

}  // namespace

ncclResult_t readCallOptions(const ncclConfigExt_t* list, CallOptions& options) noexcept {
  unsigned seen = 0;
  int length = 0;
  for (const ncclConfigExt_t* option = list; option; option = option->next) {
    if (++length > kMostOptions)
      return refuse(ncclInvalidArgument,
                    "config.ext has more than %d options: does it lead back into itself?", kMostOptions);
    if (option->key.vendorId != NCCL_VENDOR_HORING) continue;
    if (const ncclResult_t read = readOption(*option, options); read != ncclSuccess) return read;
    const unsigned bit = 1U << option->key.optionId;
    if (seen & bit)
      return refuse(ncclInvalidArgument, "config.ext has option %d of vendor 0x%x twice",
                    option->key.optionId, static_cast<unsigned>(NCCL_VENDOR_HORING));
    seen |= bit;
  }
  return ncclSuccess;
}

ncclResult_t checkCallOptions(const CallOptions& options, ncclComm_t comm, bool folds) noexcept {
  if (options.reproducible && folds) {
    int is_reproducible = 0;
    if (const ncclResult_t asked = answer(horingCommIsReproducible(own(comm), &is_reproducible));
        asked != ncclSuccess)
      return asked;
    if (!is_reproducible)
      return notServed("NCCL_HORING_REPRODUCIBLE for one reduction",
                       "make its communicator with HORING_REPRODUCIBLE=1");
  }
  return ncclSuccess;
}

WithOptions::WithOptions(const CallOptions& options) noexcept
    : has_any_(options.algorithm || options.timeout_ms != NCCL_CONFIG_UNDEF_INT) {
  if (!has_any_) return;
  horingCallOptions_t own = HORING_CALL_OPTIONS_INITIALIZER;
  own.timeoutMs = options.timeout_ms;
  const std::string_view algorithm = options.algorithm ? options.algorithm : "";
  if (algorithm.size() >= sizeof own.algorithm) {
    status_ = refuse(ncclInvalidArgument, "the algorithm is '%.100s': expected less than %zu characters",
                     options.algorithm, sizeof own.algorithm);
    return;
  }
  algorithm.copy(own.algorithm, algorithm.size());
  status_ = answer(horingSetCallOptions(&own, &former_));
}

WithOptions::~WithOptions() {
  if (!has_any_ || status_ != ncclSuccess) return;
  [[maybe_unused]] const horingResult_t restored = horingSetCallOptions(&former_, nullptr);
}

}  // namespace horing::nccl
