#include "nccl/call_options.h"

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
ncclResult_t readAlgorithm(const ncclConfigExt_t& option) {
  if (!option.val.s || !*option.val.s) return ncclSuccess;
  return refuse(ncclInvalidUsage,
                "config.ext: NCCL_HORING_ALGORITHM is '%.100s', but horing forces no algorithm for one call: "
                "force one for communicators (HORING_ALGO)",
                option.val.s);
}

ncclResult_t readOption(const ncclConfigExt_t& option, CallOptions& options) {
  switch (option.key.optionId) {
    case NCCL_HORING_TIMEOUT_MS:
      return readTimeout(option, options);
    case NCCL_HORING_REPRODUCIBLE:
      return readReproducible(option, options);
    case NCCL_HORING_ALGORITHM:
      return readAlgorithm(option);
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
  if (options.timeout_ms == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
  int ms = 0;
  if (const ncclResult_t asked = answer(horingCommGetTimeout(own(comm), &ms)); asked != ncclSuccess)
    return asked;
  if (options.timeout_ms != ms)
    return notServed("NCCL_HORING_TIMEOUT_MS other than the communicator's timeout",
                     "horingCommSetTimeout sets it for all calls of the communicator");
  return ncclSuccess;
}

}  // namespace horing::nccl
