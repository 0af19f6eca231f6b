#pragma once
#include "comm/stream.h"
#include "horing/horing.h"

namespace horing {

// The stream of this library that `stream` is; null for NULL. kInvalidUsage for any other pointer.
Result<Stream*> findStream(horingStream_t stream);

}  // namespace horing
