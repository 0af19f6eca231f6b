#pragma once
// The options of data sockets.
#include <string>

#include "base/status.h"

namespace horing::tcp {

// What every data socket gets.
struct SocketTuning {
  std::string congestion;  // "": cubic if there is one
};
// No delay, keep-alive, congestion control. Buffers are left to the kernel, which sizes them as it goes: that is fastest.
Status tuneSocket(int fd, const SocketTuning& tuning);

}  // namespace horing::tcp
