#pragma once
#include "comm/queue/stream.h"
#include "horing/horing.h"

namespace horing {

// The library's stream behind `stream`; null for NULL. kInvalidUsage for any other pointer, and in a forked child.
Result<Stream*> findStream(horingStream_t stream);
// Whether it is NULL or a stream of this library.
bool isOwnStream(horingStream_t stream);
// kInvalidUsage on a thread that runs a stream's callback: it would wait for itself.
Status checkMayWait();

}  // namespace horing
