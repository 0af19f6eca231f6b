#pragma once
// What the kernel counts of a TCP connection, for its pace.
#include "transport/socket/stream_pace.h"

namespace horing::tcp {

// Zeros if the kernel does not say (TCP_INFO, Linux 4.10).
StreamPace::Counts tcpCounts(int fd);

}  // namespace horing::tcp
