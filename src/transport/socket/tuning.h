#pragma once
// The options of data sockets.
#include <cstdint>

#include "base/status.h"

namespace horing::tcp {

// Keep-alive: the kernel probes a peer that was quiet for this long, then each interval.
inline constexpr int kKeepIdleSeconds = 3;
inline constexpr int kKeepIntervalSeconds = 1;
inline constexpr int kKeepCount = 5;
// A peer whose machine has not answered for this long, although it was asked, is considered dead. The kernel ends idle connections then.
inline constexpr int64_t kSilenceMs = 1000 * (kKeepIdleSeconds + kKeepCount * kKeepIntervalSeconds);
// A path that has not answered for this long is considered broken.
inline constexpr int64_t kPathPatienceMs = 1000 * kKeepIdleSeconds;
// A peer whose last answer is no older than this is answering. More than kPathPatienceMs.
inline constexpr int64_t kAnsweringMs = kPathPatienceMs + 500;

// No delay, keep-alive, congestion control. The kernel sizes the buffers itself, which is fastest.
Status tuneSocket(int fd);

}  // namespace horing::tcp
