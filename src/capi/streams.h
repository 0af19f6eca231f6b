#pragma once
#include "comm/queue/stream.h"
#include "horing/horing.h"

namespace horing {

// The stream of this library that `stream` is; null for NULL. kInvalidUsage for any other pointer, and in a forked child.
Result<Stream*> findStream(horingStream_t stream);
// Whether it is NULL or one of this library.
bool isOwnStream(horingStream_t stream);
// kInvalidUsage on a thread that is in a stream's callback: it would wait for itself.
Status checkMayWait();

}  // namespace horing
