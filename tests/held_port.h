#pragma once
// A TCP port for tests that close it or open it late: else a test that runs beside may be given it meanwhile.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace horing::test {

// It is nobody else's while this lives, and refuses connections, except while somebody listens on it who allows the address to be used
// again, as listenOn() does.
class HeldPort {
 public:
  HeldPort() {
    const int on = 1;
    sockaddr_in address{.sin_family = AF_INET};
    socklen_t length = sizeof address;
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    number_ = ntohs(address.sin_port);
  }
  uint16_t number() const { return number_; }

 private:
  Fd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t number_ = 0;
};

}  // namespace horing::test
