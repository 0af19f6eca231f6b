#pragma once
// What a test may know of the virtual machine with four soft-RoCE devices (tools/rdma_vm): whether it runs there, and its wires.
//
//              node A                    node B
//   wire 0     rxe0 10.99.0.1 ---------- 10.99.0.2 rxe1
//   wire 1     rxe2 10.99.1.1 ---------- 10.99.1.2 rxe3
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace horing::testing {

// The program that changes wires, which the machine's runner names; empty elsewhere.
inline std::string rdmaWires() {
  const char* const program = std::getenv("RDMA_VM_WIRES");
  return program ? program : "";
}

// Each returns whether it worked; from any thread, one at a time.

// At once: to start the program would take 0.3 s, and when a wire is pulled matters.
inline bool pullWire(int wire) {
  ifreq end{};
  std::snprintf(end.ifr_name, sizeof end.ifr_name, "veth%d", wire * 2 + 1);
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool pulled = ::ioctl(any, SIOCGIFFLAGS, &end) == 0;
  end.ifr_flags = static_cast<short>(end.ifr_flags & ~IFF_UP);
  pulled = pulled && ::ioctl(any, SIOCSIFFLAGS, &end) == 0;
  ::close(any);
  return pulled;
}
inline bool plugWire(int wire) {
  return std::system((rdmaWires() + " plug " + std::to_string(wire)).c_str()) == 0;
}
// `netem` as tc-netem(8) has it, such as "loss 1%" or "rate 100mbit"; empty: as at first.
inline bool shapeWire(int wire, const std::string& netem) {
  return std::system((rdmaWires() + " shape " + std::to_string(wire) + " " + netem).c_str()) == 0;
}

}  // namespace horing::testing

// The first line of a test that needs it. CTest knows a skipped program by these words (horing_rdma_test).
#define HORING_NEEDS_RDMA_MACHINE()                                                                    \
  do {                                                                                                 \
    if (horing::testing::rdmaWires().empty()) GTEST_SKIP() << "no RDMA here: ./tools/dev test --rdma"; \
  } while (false)
